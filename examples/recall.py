"""A click log in, next items out, and which click they come from."""

from groupnoise import MaxMatchingRecommender
from groupnoise.clicks import make_shop, rank_targets, split_clicks
from groupnoise.core import hit_at_k


def main(n_epochs: int = 6) -> float:
    shop = make_shop(random_state=0)
    split = split_clicks(shop.histories, protocol="authors", random_state=0)
    model = MaxMatchingRecommender(
        dim=32, candidates="full", max_epochs=n_epochs, learning_rate=0.01, random_state=0
    )
    model.fit(split.train.groups, item_ids=shop.item_ids)

    ranks = rank_targets(model, split.test.groups, shop.n_items)
    hit = hit_at_k(*ranks)
    print(f"HIT@10 against 100 negatives: {hit:.3f}")

    history = split.test.groups[0]
    ids, _ = model.recommend([shop.item_ids[history]], top=3)
    print("clicked:", ", ".join(shop.titles[item] for item in history))
    print("next:   ", ", ".join(shop.titles[item] for item in ids[0]))
    return hit


if __name__ == "__main__":
    main()
