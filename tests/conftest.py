"""For all tests: how long an example takes is not tested, since machines are shared."""

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
