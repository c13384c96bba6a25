"""Profiles are found by name."""

import pytest

from attnspec.cases.profiles import PROFILES, profile_named
from attnspec.errors import UsageError


def test_an_unknown_profile_is_bad_usage():
    assert PROFILES["ci"] is profile_named("ci")
    with pytest.raises(UsageError) as caught:
        profile_named("nigthly")
    assert "unknown profile 'nigthly'; did you mean 'nightly'? (profiles: smoke, quick, ci, nightly, serving)" == str(
        caught.value
    )
