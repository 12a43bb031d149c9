"""Comparisons: trials, methods, the tables they give, and the demonstration."""

from groupnoise.experiments._click_trial import ClickTrial
from groupnoise.experiments._demo import Demo, DemoTask, demo_tasks, run_demo
from groupnoise.experiments._facts import RunFacts, spell_command
from groupnoise.experiments._jobs import Job, make_trial, read_results
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
from groupnoise.experiments._prepared import Committee, ScaledClassifier
from groupnoise.experiments._recipe_files import read_recipe
from groupnoise.experiments._recipes import Reading, Recipe, Row
from groupnoise.experiments._reproduce import Plan, Reproduction, plan_reproduction, reproduce
from groupnoise.experiments._run import Method, TrialResult, run_method, summarise
from groupnoise.experiments._times import TimeLeft, TimeTable, experiment_key, fit_seconds
from groupnoise.experiments._trials import BagTrial, CandidateTrial, Trial
from groupnoise.experiments._views import DatasetView
from groupnoise.experiments._watch import Watched

__all__ = [
    "METHODS",
    "BagPicture",
    "BagTrial",
    "CandidatePicture",
    "CandidateTrial",
    "Click",
    "ClickTrial",
    "Committee",
    "DatasetView",
    "Demo",
    "DemoTask",
    "Gallery",
    "HistoryPicture",
    "Job",
    "Method",
    "MethodEntry",
    "Plan",
    "Reading",
    "Recipe",
    "Reproduction",
    "Row",
    "RunFacts",
    "ScaledClassifier",
    "TimeLeft",
    "TimeTable",
    "Trial",
    "TrialResult",
    "Watched",
    "demo_tasks",
    "experiment_key",
    "find_method",
    "fit_seconds",
    "import_class",
    "make_trial",
    "parameters_of",
    "plan_reproduction",
    "read_recipe",
    "read_results",
    "reproduce",
    "run_demo",
    "run_jobs",
    "run_method",
    "spell_command",
    "summarise",
]
