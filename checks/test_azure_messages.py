"""Messages of agents: the prompts of Azure's judges are given by ours what they are given by Azure's."""

from __future__ import annotations

import pytest
from tests.conftest import ReferenceEnvironment
from tests.reference_environments import AZURE, said_by

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_of_any_messages_azure_s_judges_and_ours_ask_the_same(seed: int, reference_env: ReferenceEnvironment) -> None:
    found = said_by(reference_env("azure", *AZURE), "azure_messages.py", str(seed), "100")
    assert len(found) == 600
    assert sum("given" in theirs for _, _, theirs, _ in found) > 300
    for name, inputs, theirs, ours in found:
        assert ours == theirs, (name, inputs)
