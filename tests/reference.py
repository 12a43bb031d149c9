"""Every formula of the objective once more, as plain loops over single numbers in float64.

A number is a Python float or a scalar float64 tensor: the same loops give the value, and, through
autograd, the gradient. Vectors are lists (or rows of a tensor), groups are lists of vectors; there
is no padding and no mask. Nothing here is shared with the package.
"""

from __future__ import annotations

import math

import numpy as np
import torch


def exp(value):
    return value.exp() if isinstance(value, torch.Tensor) else math.exp(value)


def log(value):
    return value.log() if isinstance(value, torch.Tensor) else math.log(value)


def constant(value):
    """The number without its gradient."""
    return value.detach() if isinstance(value, torch.Tensor) else value


def total(values):
    result = 0.0
    for value in values:
        result = result + value
    return result


def dot(left, right):
    return total(a * b for a, b in zip(left, right, strict=True))


def log_sum_exp(values):
    values = list(values)
    level = constant(max(values))
    return level + log(total(exp(value - level) for value in values))


def softmax(values):
    level = log_sum_exp(values)
    return [exp(value - level) for value in values]


def log_sigmoid(value):
    # Both forms are exact; each is used where its exponential cannot overflow.
    if value >= 0:
        return -log(1.0 + exp(-value))
    return value - log(1.0 + exp(value))


# Pair matching, Eq. 5


def _logit(vector, target, table, bias):
    return dot(vector, table[target]) + (0.0 if bias is None else bias[target])


def log_probabilities(vector, table, bias=None):
    """log P(. | object) over all targets; a background target is one more row of the table."""
    logits = [_logit(vector, target, table, bias) for target in range(len(table))]
    level = log_sum_exp(logits)
    return [logit - level for logit in logits]


def log_pair_full(vector, target, table, bias=None):
    """Eq. 5 as it stands."""
    return log_probabilities(vector, table, bias)[target]


def log_pair_sampled(vector, target, table, bias, sample, expected_counts):
    """Eq. 5 over the target and a sample: logQ-corrected, copies of the target left out."""
    wanted = _logit(vector, target, table, bias)
    logits = [wanted]
    for negative, count in zip(sample, expected_counts, strict=True):
        if negative != target:
            logits.append(_logit(vector, negative, table, bias) - math.log(count))
    return wanted - log_sum_exp(logits)


def log_pair_in_batch(vector, target, table, bias, batch_targets, frequencies=None):
    """Eq. 5 over the distinct targets of the batch, each corrected by its chance to be in it."""
    logits = {}
    for other in set(batch_targets):
        logits[other] = _logit(vector, other, table, bias)
        if frequencies is not None:
            chance = 1.0 - (1.0 - frequencies[other]) ** len(batch_targets)
            logits[other] = logits[other] - math.log(chance)
    return logits[target] - log_sum_exp(logits.values())


def log_pair_over_objects(target_vector, obj, object_table):
    """The other reading: P(object | target) over all objects, an ordinary classifier."""
    return log_pair_full(target_vector, obj, object_table)


# Group weighting, Eq. 6


def dot_similarity(left, right, scale=1.0):
    return scale * dot(left, right)


def negative_kl(left, right, scale=1.0):
    """-KL(left || right) of two distributions given as probabilities."""
    return -scale * total(p * (log(p) - log(q)) for p, q in zip(left, right, strict=True))


def mixture(weights, vectors):
    width = len(vectors[0])
    return [
        total(weight * vector[column] for weight, vector in zip(weights, vectors, strict=True))
        for column in range(width)
    ]


def log_group_weights(features, similarity):
    """log sigmoid S(c, h(x)) with c the softmax-weighted sum of the other objects."""
    if len(features) == 1:
        return [0.0]
    log_weights = []
    for place, feature in enumerate(features):
        others = [other for at, other in enumerate(features) if at != place]
        attention = softmax([similarity(feature, other) for other in others])
        log_weights.append(log_sigmoid(similarity(mixture(attention, others), feature)))
    return log_weights


def negatives_of(groups, row, n_negatives):
    """Objects of other groups at even distances, beginning just behind the group itself."""
    elsewhere = [obj for group in groups[row + 1 :] + groups[:row] for obj in group]
    return [elsewhere[place * len(elsewhere) // n_negatives] for place in range(n_negatives)]


def log_contrastive_weights(features, negatives, similarity):
    """The authors' form: own context score in a softmax with the scores of negatives."""

    def context_score(feature, own_place):
        similarities = [constant(similarity(feature, other)) for other in features]
        if own_place is not None:
            similarities[own_place] = 0.0
        return similarity(mixture(softmax(similarities), features), feature)

    others = [context_score(negative, None) for negative in negatives]
    log_weights = []
    for place, feature in enumerate(features):
        own = context_score(feature, place)
        log_weights.append(own - log_sum_exp([own, *others]))
    return log_weights


# Selection


def select_max(scores):
    return max(scores)


def select_marginal(scores):
    return log_sum_exp(scores)


def select_tempered(scores, temperature):
    return temperature * log_sum_exp([score / temperature for score in scores])


def select_top_k(scores, k):
    best = sorted(scores, reverse=True)[:k]
    return total(best) / len(best)


def select_all(scores):
    return total(scores)


# The whole


def log_allowed_mass(log_probabilities_of_objects, allowed):
    """Mean over the objects of a group of the log mass on targets the group may have."""
    masses = [
        log_sum_exp([value for value, may in zip(row, allowed, strict=True) if may])
        for row in log_probabilities_of_objects
    ]
    return total(masses) / len(masses)


def group_loss(log_pairs, log_weights, select, strength=1.0, log_mass=0.0, absent_strength=0.0):
    """Eq. 3 with its two options: the strength of weighting and the absent-class term."""
    scores = [pair + strength * weight for pair, weight in zip(log_pairs, log_weights, strict=True)]
    return -select(scores) - absent_strength * log_mass


# Selection before the softmax: evidence added over a history


def add_linear(history, objects, targets, bias, blocks):
    """The score of every item after a history; `blocks` are (dimensions, weights, exponent)."""
    scores = []
    for item, target in enumerate(targets):
        score = bias[item]
        for dimensions, weights, exponent in blocks:
            amount, evidence = 0.0, 0.0
            for place, click in enumerate(history):
                later = len(history) - 1 - place
                if later < len(weights):
                    amount = amount + weights[later]
                    match = total(objects[click][d] * target[d] for d in dimensions)
                    evidence = evidence + weights[later] * match
            score = score + evidence * amount**-exponent
        scores.append(score)
    return scores


def levelled(loss, levelling):
    """A loss that beyond four nats rises by at most 1 / levelling more."""
    if not levelling or loss <= 4.0:
        return loss
    return 4.0 + (1.0 - exp(-levelling * (loss - 4.0))) / levelling


def added_evidence_loss(history, objects, targets, bias, blocks, levelling=0.0):
    """The mean of -log P(next click), levelled, over all clicks of a history but the first."""
    losses = []
    for end in range(1, len(history)):
        scores = add_linear(history[:end], objects, targets, bias, blocks)
        losses.append(levelled(log_sum_exp(scores) - scores[history[end]], levelling))
    return total(losses) / len(losses)


# Gated linear recurrences over a history; `weights` are named as the package stores them


def _affine(matrix, vector, offset=None):
    values = [dot(row, vector) for row in matrix]
    return values if offset is None else [a + b for a, b in zip(values, offset, strict=True)]


def _layer_norm(values, weights, name):
    mean = total(values) / len(values)
    variance = total((value - mean) ** 2 for value in values) / len(values)
    return [
        (value - mean) * (variance + 1e-5) ** -0.5 * scale + shift
        for value, scale, shift in zip(
            values, weights[f"{name}.weight"], weights[f"{name}.bias"], strict=True
        )
    ]


def sigmoid(value):
    return 1.0 / (1.0 + exp(-value))


def recurrent_reading(vectors, weights, n_layers):
    """What a history of vectors is read as, click after click."""
    states = [
        _layer_norm(_affine(weights["project.weight"], vector), weights, "input_norm")
        for vector in vectors
    ]
    for layer in range(n_layers):
        own = {
            name.removeprefix(f"layers.{layer}."): values
            for name, values in weights.items()
            if name.startswith(f"layers.{layer}.")
        }
        hidden = len(states[0])
        memory = [0.0] * hidden
        following = []
        for state in states:
            entry = _layer_norm(state, own, "recurrence_norm")
            gates = _affine(own["gates.weight"], entry, own["gates.bias"])
            kept = [sigmoid(gate) for gate in gates[:hidden]]
            memory = [
                k * m + (1.0 - k) * v
                for k, m, v in zip(kept, memory, gates[hidden : 2 * hidden], strict=True)
            ]
            shown = [
                m * gate * sigmoid(gate)
                for m, gate in zip(memory, gates[2 * hidden :], strict=True)
            ]
            read = _affine(own["read.weight"], shown, own["read.bias"])
            state = [a + b for a, b in zip(state, read, strict=True)]
            wide = _affine(
                own["expand.weight"], _layer_norm(state, own, "perceptron_norm"), own["expand.bias"]
            )
            wide = [value if value > 0 else 0.0 * value for value in wide]
            more = _affine(own["reduce.weight"], wide, own["reduce.bias"])
            following.append([a + b for a, b in zip(state, more, strict=True)])
        states = following
    last = _layer_norm(states[-1], weights, "output_norm")
    return _affine(weights["answer.weight"], last)


def ordered_evidence_loss(history, objects, targets, bias, blocks, weights, n_layers):
    """The loss of added evidence whose contexts an encoder adds to."""
    losses = []
    for end in range(1, len(history)):
        scores = add_linear(history[:end], objects, targets, bias, blocks)
        reading = recurrent_reading([objects[click] for click in history[:end]], weights, n_layers)
        scores = [
            score + dot(reading, target) for score, target in zip(scores, targets, strict=True)
        ]
        losses.append(log_sum_exp(scores) - scores[history[end]])
    return total(losses) / len(losses)


# Quantifiers: what the objects of a group say of one target, p a list of probabilities.


def mixture_log_odds(logits, rate, constant):
    """Return the log odds of a target that a share of the objects of a group that has it has."""
    odds = constant
    for z in logits:
        odds = odds + torch.log(1.0 - rate + rate * torch.exp(z))
    return odds


def present_noisy_or(p):
    """At least one object matches: one minus the chance that none does."""
    none = 1.0
    for each in p:
        none = none * (1.0 - each)
    return 1.0 - none


def present_max(p):
    best = p[0]
    for each in p[1:]:
        best = each if each > best else best
    return best


def present_soft_max(p, strength=2.5):
    weights = [exp(strength * each) for each in p]
    return total(w * each for w, each in zip(weights, p, strict=True)) / total(weights)


def present_odds(p):
    odds = total(each / (1.0 - each) for each in p) / len(p)
    return odds / (1.0 + odds)


def present_average(p):
    log_odds = total(log(each) - log(1.0 - each) for each in p) / len(p)
    return 1.0 / (1.0 + exp(-log_odds))


def set_likelihood(probabilities, labels, n_free):
    """The chance that objects have targets of the set or free ones, and every target occurs.

    Every assignment of targets to objects is gone through.
    """
    n_targets = len(probabilities[0])
    allowed = [k for k in range(n_targets) if k >= n_targets - n_free or k in labels]
    result = 0.0
    assignments = [[]]
    for _ in probabilities:
        assignments = [[*each, k] for each in assignments for k in allowed]
    for assignment in assignments:
        if not set(labels) <= set(assignment):
            continue
        chance = 1.0
        for row, target in zip(probabilities, assignment, strict=True):
            chance = chance * row[target]
        result = result + chance
    return result


def candidate_information(probabilities, candidates, *, doubt):
    """log P(S_i | x_i) - log mean_j P(S_i | x_j), with a share of every answer spread evenly."""
    n_rows, n_classes = probabilities.shape
    result = []
    for i in range(n_rows):
        mass = [
            sum(
                (1 - doubt) * probabilities[j, k] + doubt / n_classes
                for k in range(n_classes)
                if candidates[i, k]
            )
            for j in range(n_rows)
        ]
        result.append(math.log(mass[i]) - math.log(sum(mass) / n_rows))
    return result


def smoothed_confusions(counts, smoothing):
    """Confusions of annotators, smoothed towards the shared one made as accurate as each is."""
    n_people, n_classes = len(counts), len(counts[0])
    n_votes = [sum(sum(said) for said in counts[who]) for who in range(n_people)]
    agreed = [sum(counts[who][k][k] for k in range(n_classes)) for who in range(n_people)]
    together = (sum(agreed) + 0.7) / (sum(n_votes) + 1.0)
    confusions = []
    for who in range(n_people):
        own = (agreed[who] + 20.0 * together) / (n_votes[who] + 20.0)
        better = (own / (1.0 - own)) / (together / (1.0 - together))
        matrix = []
        for true in range(n_classes):
            shared = [
                sum(counts[other][true][label] for other in range(n_people))
                + smoothing * (0.7 if label == true else 0.3 / (n_classes - 1))
                for label in range(n_classes)
            ]
            shared = [value / sum(shared) for value in shared]
            odds = better * shared[true] / (1.0 - shared[true])
            right = odds / (1.0 + odds)
            wrong = (1.0 - right) / (1.0 - shared[true])
            smoothed = [
                counts[who][true][label]
                + smoothing * (right if label == true else wrong * shared[label])
                for label in range(n_classes)
            ]
            matrix.append([value / sum(smoothed) for value in smoothed])
        confusions.append(matrix)
    return confusions


def dawid_skene_by_loops(votes, n_steps, smoothing):
    """Expectation maximisation of annotators' confusions, one vote and one label at a time."""
    n_rows, n_classes, n_people = votes.n_rows, votes.n_classes, len(votes.annotator_names)
    start = [
        [0.7 if said == true else 0.3 / (n_classes - 1) for said in range(n_classes)]
        for true in range(n_classes)
    ]
    confusion = [start for _ in range(n_people)]
    belief = [[1.0 / n_classes for _ in range(n_classes)] for _ in range(n_rows)]
    triples = list(zip(votes.rows.tolist(), votes.annotators.tolist(), votes.weights, strict=True))
    for row, _, weights in triples:
        for label in range(n_classes):
            belief[row][label] += weights[label]
    belief = [[value / sum(row) for value in row] for row in belief]
    for _ in range(n_steps):
        counts = [
            [[0.0 for _ in range(n_classes)] for _ in range(n_classes)] for _ in range(n_people)
        ]
        for row, who, weights in triples:
            if sum(other == row for other, _, _ in triples) < 2:
                continue  # a single vote says nothing of who gave it
            for true in range(n_classes):
                said = [weights[label] * confusion[who][true][label] for label in range(n_classes)]
                for label in range(n_classes):
                    counts[who][true][label] += belief[row][true] * said[label] / sum(said)
        confusion = smoothed_confusions(counts, smoothing)
        voted = sorted(set(votes.rows.tolist()))
        prior = [
            (sum(belief[row][label] for row in voted) + 1.0) / (len(voted) + n_classes)
            for label in range(n_classes)
        ]
        n_named = [sum(w[label] for _, _, w in triples) + 1.0 for label in range(n_classes)]
        prior = [min(p, 2.0 * n / sum(n_named)) for p, n in zip(prior, n_named, strict=True)]
        prior = [p / sum(prior) for p in prior]
        belief = [list(prior) for _ in range(n_rows)]
        for row, who, weights in triples:
            for true in range(n_classes):
                belief[row][true] *= sum(
                    weights[label] * confusion[who][true][label] for label in range(n_classes)
                )
        belief = [[value / sum(row) for value in row] for row in belief]
    return belief, confusion


def area_under_roc(truth, scores):
    """Return how often a positive has a higher score than a negative; ties count half."""
    won = [
        1.0 if high > low else 0.5 if high == low else 0.0
        for is_one, high in zip(truth, scores, strict=True)
        if is_one
        for is_other, low in zip(truth, scores, strict=True)
        if not is_other
    ]
    return sum(won) / len(won)


def average_precision(truth, scores):
    """Return the mean over positives of the precision at their rank; scores must differ."""
    ranked = sorted(zip(scores, truth, strict=True), reverse=True)
    precisions, n_right = [], 0
    for rank, (_, is_one) in enumerate(ranked, start=1):
        if is_one:
            n_right += 1
            precisions.append(n_right / rank)
    return sum(precisions) / len(precisions)


def expected_figure(n_better, n_tied, value_at, k):
    """The mean of a figure over the positions (from 0) that a tie leaves to the target."""
    positions = range(n_better, n_better + n_tied + 1)
    return sum(value_at(position) for position in positions if position < k) / len(positions)


def list_coverage(lists, n_items):
    """The share of items that some list holds."""
    shown = {item for row in lists for item in row if item >= 0}
    return len(shown) / n_items


def list_novelty(lists, popularity):
    """Mean of -log2 of the share of clicks on each shown item, one click being added to all."""
    clicks = sum(popularity) + len(popularity)
    surprises = [-math.log2((popularity[item] + 1) / clicks) for row in lists for item in row]
    return sum(surprises) / len(surprises)


def list_gini(lists, n_items):
    """Half the mean difference between how often two items are shown, over the mean."""
    shown = [sum(item == each for row in lists for each in row) for item in range(n_items)]
    differences = sum(abs(one - other) for one in shown for other in shown)
    return differences / (2 * n_items * sum(shown))


def inverse_propensity_mean(values, popularity):
    """A mean in which a target counts one over the training clicks on it plus one."""
    weights = [1 / (clicks + 1) for clicks in popularity]
    return sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)


def popularity_part(popularity, item):
    """0, 1 or 2: how many thirds of all clicks fall on the items ahead; 3 if never clicked."""
    if popularity[item] == 0:
        return 3
    ahead = [
        clicks
        for other, clicks in enumerate(popularity)
        if clicks > popularity[item] or (clicks == popularity[item] and other < item)
    ]
    return min(2, int(3 * sum(ahead) // sum(popularity)))


def bootstrap_means(values, users, draws):
    """The mean over the targets of the users in each draw, a user counting as often as drawn."""
    means = []
    for draw in draws:
        drawn = [
            v for user in draw for v, owner in zip(values, users, strict=True) if owner == user
        ]
        means.append(sum(drawn) / len(drawn))
    return means


def corrected_t(differences, test_to_train):
    """Mean difference over its corrected standard error (Nadeau and Bengio)."""
    n = len(differences)
    mean = sum(differences) / n
    variance = sum((each - mean) ** 2 for each in differences) / (n - 1)
    return mean / math.sqrt((1 / n + test_to_train) * variance)


def inverse_propensity_estimates(propensity, target, clicked):
    """IPS and its self-normalised form, row by row."""
    earned, weight = 0.0, 0.0
    for p, q, c in zip(propensity, target, clicked, strict=True):
        earned += q / p * c
        weight += q / p
    return earned / len(propensity), earned / weight


def distances(rows, others):
    """Euclidean distance of every pair of rows, one coordinate after the other."""
    result = np.zeros((len(rows), len(others)))
    for i, row in enumerate(rows):
        for j, other in enumerate(others):
            result[i, j] = math.sqrt(
                sum((float(a) - float(b)) ** 2 for a, b in zip(row, other, strict=True))
            )
    return result


def kernel_logits(rows, landmarks, width, weight, bias):
    """Logits of labels: a constant and one Gaussian bump at each landmark."""
    apart = distances(rows, landmarks)
    result = np.zeros((len(rows), weight.shape[1]))
    for i in range(len(rows)):
        for label in range(weight.shape[1]):
            result[i, label] = float(bias[label])
            for j in range(len(landmarks)):
                bump = math.exp(-((apart[i, j] / width) ** 2) / 2)
                result[i, label] += bump * float(weight[j, label])
    return result


def forest_logits(rows, roots, feature, threshold, following, leaves, floor):
    """Logarithm of the mean leaf: every tree is walked down, node by node."""
    n_labels = leaves.shape[1]
    result = np.zeros((len(rows), n_labels))
    for i, row in enumerate(rows):
        for root in roots:
            place = root
            while place >= 0:
                side = 0 if row[feature[place]] <= threshold[place] else 1
                place = following[place][side]
            for label in range(n_labels):
                result[i, label] += float(leaves[-1 - place, label]) / len(roots)
    return np.log(result + floor / n_labels)


def share_of_forests(ahead, told, most, scale):
    """How much forests count that tell `told` where the best other setting tells `ahead`."""
    share = most
    if told < ahead:
        share = most * math.exp(-(ahead - told) / scale)
    return share


def information_of_average(predictions, weights, factor, candidates, doubt):
    """Mean information of the weighted mean of answers whose logarithms are divided by a factor."""
    n_rows, n_classes = candidates.shape
    average = np.zeros((n_rows, n_classes))
    for each, weight in zip(predictions, weights, strict=True):
        for i in range(n_rows):
            powers = [float(each[i, k]) ** (1 / factor) for k in range(n_classes)]
            for k in range(n_classes):
                average[i, k] += weight * powers[k] / sum(powers)
    return sum(candidate_information(average, candidates, doubt=doubt)) / n_rows


def population_stability(shares, counts):
    """Shift of counts from expected shares, half a count added to each bin."""
    n = sum(counts)
    index = 0.0
    for share, count in zip(shares, counts, strict=True):
        expected = (share * n + 0.5) / (n + 0.5 * len(counts))
        actual = (count + 0.5) / (n + 0.5 * len(counts))
        index += (actual - expected) * math.log(actual / expected)
    return index


def foretold_candidates_by_label(probabilities, candidates, worth):
    """The same with a chance of each label's own, of which `worth` rows are of all labels."""
    n_rows, n_classes = probabilities.shape
    last, named = [0] * n_classes, [0] * n_classes
    for row, own in zip(probabilities, candidates, strict=True):
        for label in sorted(range(n_classes), key=lambda label: -row[label])[n_classes // 2 :]:
            last[label] += 1
            named[label] += int(own[label])
    every = sum(named) / sum(last)
    chances = [(n + worth * every) / (of + worth) for n, of in zip(named, last, strict=True)]
    size = sum(int(own.sum()) for own in candidates) / n_rows
    frequency = [0.0] * n_classes
    for row, own in zip(probabilities, candidates, strict=True):
        inside = sum(p for p, is_named in zip(row, own, strict=True) if is_named)
        for label in range(n_classes):
            frequency[label] += own[label] * row[label] / inside / n_rows
    doubled = sum(f * chance for f, chance in zip(frequency, chances, strict=True))
    return (size - sum(chances)) / (1.0 - doubled)


def foretold_candidates_loop(probabilities, candidates):
    """Candidates per row above what the lower half of the ranks has by chance."""
    n_rows, n_classes = probabilities.shape
    counts = [0.0] * n_classes
    for row, named in zip(probabilities, candidates, strict=True):
        ranked = sorted(range(n_classes), key=lambda label: -row[label])
        for rank, label in enumerate(ranked):
            counts[rank] += named[label] / n_rows
    lower = counts[n_classes // 2 :]
    chance = sum(lower) / len(lower)
    return sum((count - chance) / (1.0 - chance) for count in counts)


def moved_towards_like_items(said, new_features, known, share, n_like):
    """What a regression says of new items, moved towards the trained rows of those most like them.

    `known`: pairs of the features and the trained row of each clicked item.
    """
    moved = []
    for row, features in zip(said, new_features, strict=True):
        cosines = []
        for own, trained in known:
            lengths = math.sqrt(sum(x * x for x in features)) * math.sqrt(sum(x * x for x in own))
            product = sum(x * y for x, y in zip(features, own, strict=True))
            cosines.append((product / lengths if lengths else 0.0, trained))
        nearest = sorted(cosines, key=lambda pair: -pair[0])[:n_like]
        weight = sum(cosine**2 for cosine, _ in nearest)
        if not weight:
            moved.append([float(x) for x in row])
            continue
        mean = [
            sum(cosine**2 * float(trained[place]) for cosine, trained in nearest) / weight
            for place in range(len(row))
        ]
        moved.append([(1 - share) * float(x) + share * y for x, y in zip(row, mean, strict=True)])
    return moved


def within_bag(proba, bag_proba, share):
    """Loop over P(target | instance, bag): the odds of labels a bag seems to lack count against.

    And none is likelier of a label than its bag: what lies above nine tenths of that is brought
    below it, and the rest goes to the last target, which no bag is asked for.

    `proba` (n_instances, n_targets): of one bag. `bag_proba`: by label.
    """
    found = []
    for row in proba:
        weights = []
        for target, chance in enumerate(row):
            present = bag_proba[target] if target < len(bag_proba) else None
            odds = 1.0 if present is None else min(1.0, present / (1.0 - present))
            weights.append(chance * odds**share)
        found.append([weight / sum(weights) for weight in weights])
    for label, present in enumerate(bag_proba):
        most = max(row[label] for row in found)
        for row in found:
            if most > present and row[label] > 0.9 * present:
                part = (row[label] - 0.9 * present) / (most - 0.9 * present)
                row[label] = 0.9 * present + 0.1 * present * part
    return [[*row[:-1], 1.0 - sum(row[:-1])] for row in found]


def label_set_figures(labels, predicted):
    """Loop over sets of labels: exact match, Hamming loss, macro and micro F1."""
    exact = sum(own == found for own, found in zip(labels, predicted, strict=True)) / len(labels)
    classes = sorted(set().union(*labels, *predicted))
    scores, wrong, counted = [], 0, [0, 0, 0]
    for each in classes:
        pairs = [(each in own, each in found) for own, found in zip(labels, predicted, strict=True)]
        both = sum(own and found for own, found in pairs)
        missed = sum(own and not found for own, found in pairs)
        false = sum(found and not own for own, found in pairs)
        wrong += missed + false
        counted = [a + b for a, b in zip(counted, (both, missed, false), strict=True)]
        if both + missed:
            scores.append(2 * both / (2 * both + missed + false))
    both, missed, false = counted
    return {
        "exact match": exact,
        "Hamming loss": wrong / (len(labels) * len(classes)),
        "F1": sum(scores) / len(scores),
        "micro F1": 2 * both / (2 * both + missed + false),
    }


def labels_within_bag(p, own, n_sweeps):
    """P(target | instance, labels of its bag) of a bag, each of whose labels some instance has.

    `p`: of each instance, the probability of every target. `own`: the "labels" of the bag, and
    "free" targets, which it may always have.
    """
    found = [conditional(each, own, {}) for each in p]
    for _ in range(n_sweeps):
        latest = []
        for number, each in enumerate(p):
            odds = {}
            for target in own["labels"]:
                none = 1.0
                for other, said in enumerate(found):
                    if other != number:
                        none = none * (1.0 - said[target])
                odds[target] = 1.0 / (1.0 - none)
            latest.append(conditional(each, own, odds))
        found = latest
    return found


def conditional(p, own, odds):
    """Probabilities of the possible targets, multiplied by odds, that sum to one."""
    possible = own["labels"] + own["free"]
    weighed = [p[y] * odds.get(y, 1.0) if y in possible else 0.0 for y in range(len(p))]
    return [each / total(weighed) for each in weighed]
