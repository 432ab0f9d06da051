"""`torchrun -m saobp.study.pretraining`, the command's former name."""

from saobp.study.training.pretraining import main

if __name__ == "__main__":
    main()
