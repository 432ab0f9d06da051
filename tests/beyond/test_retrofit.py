"""An arm of the retrofit: scored after each epoch on the reported split, its attention measured at the end."""

from small_models import network, word_tokenizer

from saobp.study.beyond import retrofit
from saobp.study.data import sources
from saobp.study.data.task_rows import load_task
from saobp.study.setup.recipes import Finetuning


def test_an_arm_is_scored_after_each_epoch_and_measured_at_the_end(tmp_path):
    network("original").save_pretrained(tmp_path / "encoder")
    task = load_task("rte", sources.resolve("synthetic"), limit_train=12, limit_evaluation=20)
    recipe = Finetuning(groups={"all": ["rte"]}, length=24, batch=5, epochs=2, precision="fp32")
    arm = retrofit.Arm(factor="high", strength=0.1)
    found = retrofit.finetune(task, arm, tmp_path / "encoder", word_tokenizer(), recipe, 0, tmp_path)
    assert [entry["epoch"] for entry in found["epochs"]] == [1, 2] and found["epoch"] == 2
    assert found["scores"] == found["epochs"][-1]["scores"] and len(found["outcomes"]) == 20
    assert len(found["attention"]["gtd"]) == 4 and not {"step", "seconds"} & set(found)
