"""Comparisons: trials, methods, the tables they give, and the demonstration."""

from groupnoise.experiments._demo import Demo, DemoTask, demo_tasks, run_demo
from groupnoise.experiments._facts import RunFacts, spell_command
from groupnoise.experiments._methods import (
    METHODS,
    MethodEntry,
    find_method,
    import_class,
    parameters_of,
)
from groupnoise.experiments._parallel import run_jobs
from groupnoise.experiments._pictures import (
    BagPicture,
    CandidatePicture,
    Click,
    Gallery,
    HistoryPicture,
)
from groupnoise.experiments._recipes import Recipe, read_recipe
from groupnoise.experiments._reproduce import Reproduction, make_trial, reproduce
from groupnoise.experiments._run import Method, TrialResult, run_method, summarise
from groupnoise.experiments._trials import BagTrial, CandidateTrial, ClickTrial, Trial

__all__ = [
    "METHODS",
    "BagPicture",
    "BagTrial",
    "CandidatePicture",
    "CandidateTrial",
    "Click",
    "ClickTrial",
    "Demo",
    "DemoTask",
    "Gallery",
    "HistoryPicture",
    "Method",
    "MethodEntry",
    "Recipe",
    "Reproduction",
    "RunFacts",
    "Trial",
    "TrialResult",
    "demo_tasks",
    "find_method",
    "import_class",
    "make_trial",
    "parameters_of",
    "read_recipe",
    "reproduce",
    "run_demo",
    "run_jobs",
    "run_method",
    "spell_command",
    "summarise",
]
