"""How far a piece of work is, told to who takes steps and who takes lines."""

from overlayccl_core.measuring.progress import OneOfMany, ProgressStep, part_of, tell


class Listener:
    """Takes both."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.steps: list[ProgressStep] = []

    def __call__(self, line: str) -> None:
        self.lines.append(line)

    def step(self, step: ProgressStep) -> None:
        self.steps.append(step)


STEP = ProgressStep(phase="timing", unit="round", done=3, total=20, left_s=40.0)


def test_a_step_is_told_as_it_is_to_who_takes_steps_else_as_a_line() -> None:
    listener, lines = Listener(), list[str]()
    tell(listener, STEP)
    tell(lines.append, STEP)
    assert (listener.steps, listener.lines) == ([STEP], [])
    assert lines == ["timing: round 3 of 20, 40 s left"]


def test_the_steps_of_one_of_several_batches_are_not_those_of_the_whole() -> None:
    listener = Listener()
    said = part_of(listener, "nano")
    tell(said, STEP)
    said("launch 2 of 4: starting")
    assert listener.steps == []
    assert listener.lines == ["nano: timing: round 3 of 20, 40 s left", "nano: launch 2 of 4: starting"]


def test_the_rounds_of_one_of_many_alike_count_among_those_of_all() -> None:
    listener = Listener()
    second = OneOfMany(progress=listener, name="deployed", before=20, total=100)
    tell(second, STEP)
    tell(second, ProgressStep(phase="1 arms", unit="launch", done=0, total=1))
    tell(second, ProgressStep(phase="timing", unit="round", done=20, total=20, left_s=0.0))
    second("checking")
    assert listener.steps == [
        ProgressStep(phase="deployed", unit="round", done=23, total=100, left_s=40.0 / 17 * 77),
        ProgressStep(phase="deployed", unit="round", done=40, total=100),
    ]
    assert listener.lines == ["deployed: checking"]
