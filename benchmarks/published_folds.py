"""Candidate labels in published folds: stratified five-fold, seed 42, features from 0 to 1.

    python benchmarks/published_folds.py recipe|plain [SET ...]

The protocol of VI-PLL (Fuchs and Klein, 2026): `StratifiedKFold(5, shuffle=True,
random_state=42)` by true label, minimum and maximum learned from the training rows. "recipe" is
`ours` of `reproduce pll` with its grid set to one value, "plain" a fit without a parameter. No true
label is seen. The accuracy on training rows is that of `disambiguate`. Published figures are of the
same folds, so differences are paired. What is done is kept in a log, so that a stopped run is
resumed.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from _record import RESULTS, write_result
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import MinMaxScaler

from groupnoise import MaxMatchingPartialLabelClassifier
from groupnoise.core.metrics import accuracy
from groupnoise.io import load_dataset
from groupnoise.reproduce.provenance import provenance
from groupnoise.reproduce.report.tables import corrected_t_test, holm

LOG = Path("runs/published_folds.jsonl")
N_FOLDS = 5
RECIPE: dict[str, Any] = {
    "encoder": "mlp",
    "hidden": (300,),
    "dropout": 0.5,
    "normalize": "both",
    "selection": "tempered",
    "temperature": (1.0, 0.3),
    "weighting_strength": 0.0,
    "scaling": "power",
    "n_members": 4,
}
OF_SETS: dict[str, dict[str, Any]] = {
    "lost": {"max_epochs": 60},
    "msrcv2": {"max_epochs": 40, "batch_size": 128},
    "birdsong": {"max_epochs": 40, "batch_size": 128, "temperature": (3.0, 0.3)},
}
PUBLISHED = """
lost VI-PLL .804444 .813333 .772321 .75 .785714 .934225 .942029 .929844 .900891 .918708
lost CroSel .773333 .684444 .741071 .736607 .709821 .880713 .901895 .883073 .884187 .873051
lost CEL .764444 .733333 .767857 .727679 .714286 .879599 .899666 .9098 .888641 .85078
lost PiCO .72 .653333 .638393 .6875 .647321 .87291 .841695 .865256 .873051 .859688
lost PRODEN .751111 .755556 .741071 .700893 .723214 .898551 .914158 .907572 .890869 .893096
lost POP .755556 .724444 .741071 .714286 .700893 .907469 .908584 .890869 .878619 .891982
lost VALEN .742222 .648889 .647321 .660714 .651786 .858417 .877369 .859688 .848552 .857461
lost CAVL .702222 .635556 .700893 .620536 .669643 .850613 .833891 .855234 .793987 .820713
lost PL-ECOC .657778 .653333 .674107 .566964 .65625 .824972 .826087 .844098 .81069 .815145
lost PL-KNN .448889 .488889 .419643 .419643 .428571 .655518 .67447 .685969 .657016 .639198
msrcv2 VI-PLL .622159 .613636 .619318 .555556 .60114 .76458 .72404 .743954 .716418 .721393
msrcv2 CroSel .551136 .588068 .482955 .481481 .512821 .665718 .637269 .638691 .65032 .654584
msrcv2 CEL .514205 .576705 .551136 .518519 .495726 .696302 .681366 .683499 .68941 .680881
msrcv2 PiCO .602273 .616477 .59375 .472934 .555556 .790185 .778094 .805832 .678038 .732765
msrcv2 PRODEN .539773 .619318 .53125 .524217 .547009 .698435 .696302 .697013 .688699 .692253
msrcv2 POP .534091 .602273 .559659 .518519 .547009 .6899 .703414 .70128 .677328 .697939
msrcv2 VALEN .497159 .539773 .463068 .501425 .504274 .630156 .63229 .625178 .636105 .653873
msrcv2 CAVL .525568 .579545 .559659 .487179 .529915 .659317 .682788 .679232 .661692 .67022
msrcv2 PL-ECOC .278409 .306818 .275568 .270655 .307692 .533428 .548364 .535562 .569296 .544421
msrcv2 PL-KNN .411932 .46875 .428977 .421652 .424501 .59175 .577525 .578947 .600569 .587065
birdsong VI-PLL .748 .754 .792 .756757 .756757 .870935 .861431 .876188 .857714 .869217
birdsong CroSel .743 .753 .779 .751752 .747748 .830915 .817659 .826163 .809452 .820705
birdsong CEL .729 .717 .744 .697698 .6997 .829165 .830915 .827914 .815704 .821205
birdsong PiCO .716 .731 .748 .722723 .722723 .895198 .884192 .876438 .868217 .883221
birdsong PRODEN .707 .721 .736 .685686 .708709 .81966 .827664 .821161 .815704 .824956
birdsong POP .71 .715 .736 .716717 .707708 .830665 .821411 .832666 .818455 .828707
birdsong VALEN .708 .71 .754 .712713 .714715 .802651 .817909 .818909 .811703 .818705
birdsong CAVL .693 .662 .689 .68969 .671672 .841921 .788144 .79915 .817954 .796199
birdsong PL-ECOC .57 .618 .619 .610611 .634635 .81991 .834417 .821911 .822206 .823706
birdsong PL-KNN .677 .684 .698 .662663 .6997 .789395 .788894 .782141 .778695 .790448
"""
"""Set, method, and accuracy fold by fold: five times on new rows, five times on training rows."""
SOURCE = "the result files of github.com/mathefuchs/vi-pll, read on 19 November 2026"
TEST_TO_TRAIN = 1 / 4
"""Of five folds."""


def run_fold(name: str, method: str, fold: int) -> dict[str, Any]:
    """Fit on four fifths of a set and return the accuracies on both parts."""
    data = load_dataset(name)
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=42)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some classes have fewer rows than there are folds
        train, test = list(folds.split(data.features, data.truth))[fold]
        scaler = MinMaxScaler().fit(data.features[train])
        rows = scaler.transform(data.features).astype(np.float32)
        candidates = data.candidates.astype(np.int64)
        started = time.process_time()
        settings = {**RECIPE, **OF_SETS[name]}
        if method == "recipe":
            model = MaxMatchingPartialLabelClassifier.fixed(**settings, random_state=fold)
        else:
            model = MaxMatchingPartialLabelClassifier(random_state=fold)
        model.fit(rows[train], candidates[train])
        chosen = model.disambiguate(rows[train], candidates[train])
    return {
        "set": name,
        "method": method,
        "fold": fold,
        "accuracy": round(accuracy(data.truth[test], model.predict(rows[test])), 6),
        "training rows": round(accuracy(data.truth[train], chosen), 6),
        "seconds": round(time.process_time() - started, 1),
        **provenance("pll"),
    }


def published() -> dict[str, dict[str, dict[str, list[float]]]]:
    """Return the published accuracies by set, method, part and fold."""
    found: dict[str, dict[str, dict[str, list[float]]]] = {}
    for line in PUBLISHED.split("\n")[1:-1]:
        name, method, *figures = line.split()
        values = list(map(float, figures))
        parts = {"new rows": values[:N_FOLDS], "training rows": values[N_FOLDS:]}
        found.setdefault(name, {})[method] = parts
    return found


def differences(trials: list[dict[str, Any]], method: str) -> list[dict[str, Any]]:
    """Return how far ours is from every published method on the new rows of the same folds."""
    tests = {}
    for name, others in published().items():
        own = {
            each["fold"]: each for each in trials if (each["set"], each["method"]) == (name, method)
        }
        if len(own) < N_FOLDS:
            continue
        ours = np.array([own[fold]["accuracy"] for fold in range(N_FOLDS)])
        for other, parts in others.items():
            gaps = ours - np.array(parts["new rows"])
            tests[name, other] = corrected_t_test(gaps, TEST_TO_TRAIN)
    adjusted = holm({f"{name} {other}": test.p_value for (name, other), test in tests.items()})
    return [
        {
            "set": name,
            "method": method,
            "against": other,
            "mean": test.mean,
            "low": test.low,
            "high": test.high,
            "p": adjusted[f"{name} {other}"],
        }
        for (name, other), test in tests.items()
    ]


def read_log() -> list[dict[str, Any]]:
    """Return finished trials: those of the result file and of the log.

    Trials that do not say when they were made are as old as the file at least.
    """
    path = RESULTS / "published_folds.json"
    before = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {"trials": []}
    kept = [{"ended": f"by {before['date']}", **each} for each in before["trials"]]
    lines = LOG.read_text(encoding="utf-8").splitlines() if LOG.is_file() else []
    trials = [*kept, *map(json.loads, lines)]
    newest = {(each["set"], each["method"], each["fold"]): each for each in trials}
    return list(newest.values())


def main() -> None:
    """Run missing folds, and write the table."""
    method, *names = sys.argv[1:]
    LOG.parent.mkdir(exist_ok=True)
    for name in names or OF_SETS:
        for fold in range(N_FOLDS):
            if any((r["set"], r["method"], r["fold"]) == (name, method, fold) for r in read_log()):
                continue
            with LOG.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(run_fold(name, method, fold)) + "\n")
    trials, rows = read_log(), []
    for name in OF_SETS:
        for each in ("recipe", "plain"):
            own = [trial for trial in trials if (trial["set"], trial["method"]) == (name, each)]
            if own:
                rows.append(
                    {
                        "set": name,
                        "method": each,
                        "folds": len(own),
                        "accuracy": float(np.mean([trial["accuracy"] for trial in own])),
                        "std": float(np.std([trial["accuracy"] for trial in own], ddof=1)),
                        "training rows": float(np.mean([trial["training rows"] for trial in own])),
                        "seconds of a fit": float(np.mean([trial["seconds"] for trial in own])),
                    }
                )
    payload = {
        "protocol": "StratifiedKFold(5, shuffle=True, random_state=42), min-max on training rows",
        "recipe": RECIPE,
        "recipe_of_sets": OF_SETS,
        "published": {
            name: {
                method: {part: float(np.mean(values)) for part, values in parts.items()}
                for method, parts in methods.items()
            }
            for name, methods in published().items()
        },
        "published_source": SOURCE,
        "test": "corrected resampled t-test, adjusted by Holm over all pairs of a method of ours",
        "differences": [*differences(trials, "plain"), *differences(trials, "recipe")],
        "rows": rows,
        "trials": trials,
    }
    write_result("published_folds", payload)


if __name__ == "__main__":
    main()
