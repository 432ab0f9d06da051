"""What the refinement changes, with samples as the unit."""

import pandas as pd
import pytest

from saobp.study import samples


def parquet(tmp_path, change, count=40):
    rows = []
    for sample in range(count):
        for matrix in ("raw", "refined"):
            for head in range(4):
                level = 0.5 + 0.01 * sample + 0.1 * head + (change + 0.001 * (sample % 5) if matrix == "refined" else 0)
                rows.append(
                    {"sample": sample, "matrix": matrix, "head": head, **dict.fromkeys(samples.MEASURES, level)}
                )
    path = tmp_path / "capture.parquet"
    frame = pd.DataFrame(rows)
    frame.loc[frame["sample"] == 3, "gtd"] = None
    frame.to_parquet(path)
    return path


def test_the_interval_is_that_of_the_change_and_not_of_the_level(tmp_path):
    found = samples.changes(parquet(tmp_path, 0.1))
    entropy = found.loc["entropy"]
    assert entropy["change"] == pytest.approx(0.102)
    assert 0.101 < entropy["low"] < 0.102 < entropy["high"] < 0.103  # levels differ by 0.4 between samples
    assert entropy["refined"] - entropy["softmax"] == pytest.approx(entropy["change"])


def test_a_sample_without_a_value_is_left_out_and_counted(tmp_path):
    found = samples.changes(parquet(tmp_path, 0.1))
    assert found.loc["gtd", "samples"] == 39 and found.loc["gtd", "undefined"] == 1
    assert found.loc["entropy", "samples"] == 40
