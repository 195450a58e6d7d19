"""Which rule of `all` reads what others wrote: by hand, so that a wrong rerun is seen. A new rule is one line here.

test_reruns.py compares it with the rules that Snakemake has, and asks it what is behind a change.
"""

from collections.abc import Collection

READS = {
    rule: frozenset(of.split())
    for rule, of in {
        "selftest": "",
        "cases": "",
        "probe": "selftest",
        "fit": "probe",
        "known_ways": "selftest cases",
        "price": "fit known_ways",
        "search": "selftest cases fit known_ways",
        "trial": "search",
        "mended_search": "selftest cases fit known_ways search trial",
        "shortlist": "known_ways price search mended_search",
        "bench": "shortlist",
        "finalists": "probe fit segments known_ways price search mended_search shortlist bench",
        "segments": "selftest",
        "train": "finalists",
        "step_fidelity": "fit segments finalists train",
        "choose": "probe known_ways search mended_search shortlist bench finalists train",
        "confirm": "finalists train choose",
        "deploy": "probe price search mended_search shortlist bench finalists train choose confirm",
        "price_ablation": "probe shortlist bench",
        "summary": (
            "probe fit known_ways price search mended_search shortlist bench finalists train choose confirm "
            "deploy"
        ),
        "report": (
            "probe fit known_ways price search trial mended_search bench finalists train choose confirm deploy "
            "price_ablation"
        ),
    }.items()
}
WHERE_ASKED = {"trial", "mended_search"}  # without jobs, unless a search asks a language model


def behind(*rules: str, equal: Collection[str] = ()) -> frozenset[str]:
    """These rules, and all that may run after them. equal: those whose tables come out equal start nothing."""
    found = set(rules)
    while more := {rule for rule, of in READS.items() if of & found.difference(equal)} - found:
        found |= more
    return frozenset(found)
