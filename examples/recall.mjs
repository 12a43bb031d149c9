// Ask a recall service from JavaScript: node recall.mjs http://127.0.0.1:8000 item [item ...]
// The token, if the service needs one, is read from GROUPNOISE_TOKEN.
const RETRIED = new Set([408, 429, 500, 502, 503, 504]);

/** Return the answer to each history, a list of item ids with the oldest click first. */
export async function recall(address, histories, { retries = 3, timeout = 10_000, ...options } = {}) {
  const headers = { "Content-Type": "application/json" };
  const token = process.env.GROUPNOISE_TOKEN;
  if (token) headers.Authorization = `Bearer ${token}`;
  const body = JSON.stringify({ histories, ...options });
  for (let attempt = 0; ; attempt++) {
    let reason;
    try {
      const signal = AbortSignal.timeout(timeout);
      const answer = await fetch(`${address}/v1/recall`, { method: "POST", headers, body, signal });
      if (answer.ok) return (await answer.json()).results;
      reason = `${answer.status}: ${await answer.text()}`;
      if (!RETRIED.has(answer.status)) attempt = retries;
    } catch (error) {
      reason = String(error);
    }
    if (attempt >= retries) throw new Error(`the service did not answer: ${reason}`);
    await new Promise((done) => setTimeout(done, 100 * 2 ** attempt));
  }
}

const [address, ...items] = process.argv.slice(2);
const [first] = await recall(address, [items], { top: 5 });
for (const { item, score } of first.items) console.log(item, score.toFixed(3));
