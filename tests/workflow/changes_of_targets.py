"""Changes of other targets than `all`, and the rules that may run after each."""

from tests.workflow.changes import CONFIG, CORE, TREE, Row, appended

WEIGHED = {"weigh_probes", "probing_page"}
SCOPED = {"time_scopes", "weigh_scopes"}
TUNED = {"time_ways", "weigh_tuners"}
SWEPT_M = {"train_splits", "weigh_splits"}
SWEPT_PAYLOAD = {"time_payloads", "weigh_payloads"}
PARTED = {"find_parts", "time_parts", "weigh_parts"}
CHOSEN = {"ask_probes", "time_probes", *WEIGHED}
OF_TARGETS = {  # where a search asks a language model
    "probing": [
        Row(
            "the memory that Programs are held to",
            CHOSEN,
            {"config/deployments/local.yaml": ("memory_budget: 512MiB", "memory_budget: 513MiB")},
        ),
        Row("money", CHOSEN, {CONFIG: ("max_usd: 20", "max_usd: 21")}),
        Row("how it is weighed", WEIGHED, appended(f"{CORE}/stages/weigh_probes.py")),
        Row("the page", {"probing_page"}, appended(f"{CORE}/report/probing.py")),
        Row("the bench gate", set(), appended(f"{CORE}/gates/bench.py")),
        Row("calls that are gone", CHOSEN, gone=(f"{TREE}/probing/command/probe_calls.parquet",)),
    ],
    "longrun": [
        Row("steps", {"longtrain", "losses"}, {CONFIG: ("steps: 2500", "steps: 2501")}),
        Row("how losses are judged", {"losses"}, appended(f"{CORE}/stages/losses.py")),
        Row(
            "stamps that are gone",
            {"longtrain", "losses"},
            gone=(f"{TREE}/longrun/nano-dp/long_stamps.parquet",),
            problems=("grad_ar",),
        ),
        Row("names in another order", set(), config={"problems": "uniform_a2a,tp_mlp,grad_ar"}),
    ],
    "ablations": [
        Row(
            "what all begin with",
            {"ablation_search", "ablation", "ablation_page"},
            {CONFIG: ("begin: developer", "begin: library")},
        ),
        Row(
            "how searches are compared", {"ablation", "ablation_page"}, appended(f"{CORE}/stages/ablation.py")
        ),
        Row("the page", {"ablation_page"}, appended(f"{CORE}/report/ablations.py")),
        Row(
            "Problems in another order",
            set(),
            {
                CONFIG: (
                    "problems: [tp_mlp, grad_ar, uniform_a2a]",
                    "problems: [grad_ar, tp_mlp, uniform_a2a]",
                )
            },
        ),
        Row(
            "a curve that is gone",
            {"ablation", "ablation_page"},
            gone=(f"{TREE}/ablations/ablations.sidecar.json",),
        ),
    ],
    "drift": [  # it runs whenever it is asked, and nothing else does
        Row(
            "the sweep, whose Programs it takes from the table",
            set(),
            appended(f"{CORE}/probes/structured.py"),
        ),
        Row("how theta is judged", {"reprobe"}, appended(f"{CORE}/costmodel/drift.py")),
        Row(
            "seconds of the bench",
            {"reprobe"},
            {CONFIG: ("both directions\n  seconds: ", "both directions\n  seconds: 1")},
        ),
    ],
    "scopes": [
        Row("the page", {"weigh_scopes"}, appended(f"{CORE}/report/scopes.py")),
        Row(
            "seconds",
            SCOPED,
            {CONFIG: ("seconds: 60\n  minimum_rounds: 6", "seconds: 61\n  minimum_rounds: 6")},
        ),
        Row("drift", set(), appended(f"{CORE}/evidence/drift.py")),
        Row("samples that are gone", SCOPED, gone=(f"{TREE}/scopes/scopes.parquet",)),
    ],
    "decompose": [
        Row("the page", {"weigh_parts"}, appended(f"{CORE}/report/parts.py")),
        Row("how chains are found", PARTED, appended(f"{CORE}/rewrites/chains.py")),
        Row("launches", PARTED - {"find_parts"}, {CONFIG: ("maximum_launches: 20", "maximum_launches: 21")}),
        Row(
            "arms that are gone",
            PARTED,
            gone=(f"{TREE}/decompose/nano-dp/part_arms.parquet",),
            problems=("grad_ar",),
        ),
        Row("drift", set(), appended(f"{CORE}/evidence/drift.py")),
    ],
    "tune": [
        Row("how tuners are compared", {"weigh_tuners"}, appended(f"{CORE}/tuning/replay.py")),
        Row("the ways of a call", TUNED, appended(f"{CORE}/tuning/space.py")),
        Row("the library of captured calls", TUNED, appended(f"{CORE}/strategies/captured.py")),
        Row(
            "calls",
            TUNED,
            {CONFIG: ("kind: all_to_all, elements: 65536", "kind: all_to_all, elements: 131072")},
        ),
        Row("seconds of the second launch", TUNED, {CONFIG: ("    seconds: 90\n", "    seconds: 91\n")}),
        Row("another Problem's Cases", set(), {CONFIG: ("- {payload: 64KiB}", "- {payload: 128KiB}")}),
        Row("samples that are gone", TUNED, gone=(f"{TREE}/tune/timed_ways.parquet",)),
        Row("a way that is gone", {"weigh_tuners"}, gone=(f"{TREE}/tune/ways.json",)),
    ],
    "sweep_m": [
        Row("the page", {"weigh_splits"}, appended(f"{CORE}/report/sweep_m.py")),
        Row("what is read off the steps", {"weigh_splits"}, appended(f"{CORE}/evidence/swept.py")),
        Row("steps of a launch", SWEPT_M, {CONFIG: ("minimum_steps: 6 # odd", "minimum_steps: 8 # odd")}),
        Row(
            "steps of training, by which is chosen",
            set(),
            {CONFIG: ("seconds: 4 # of timed steps, a", "seconds: 3 # of timed steps, a")},
        ),
        Row(
            "samples that are gone",
            SWEPT_M,
            gone=(f"{TREE}/sweep_m/nano/swept_steps.parquet",),
            problems=("tp_mlp",),
        ),
    ],
    "sweep_payload": [
        Row("the page", {"weigh_payloads"}, appended(f"{CORE}/report/payloads.py")),
        Row("the ways", SWEPT_PAYLOAD, appended(f"{CORE}/strategies/ways/exchanges.py")),
        Row("a library of another Problem", set(), appended(f"{CORE}/strategies/grad_ar.py")),
        Row("the Problem", SWEPT_PAYLOAD, appended(f"{CORE}/problems/uniform_a2a.py")),
        Row("payloads", SWEPT_PAYLOAD, {CONFIG: ("payloads: [2KiB, 4KiB,", "payloads: [4KiB,")}),
        Row("Cases of the Problem", set(), {CONFIG: ("- {payload: 64KiB}", "- {payload: 128KiB}")}),
        Row("samples that are gone", SWEPT_PAYLOAD, gone=(f"{TREE}/sweep_payload/timed_payloads.parquet",)),
    ],
}
