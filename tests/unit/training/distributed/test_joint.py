import torch
from torch.testing import assert_close


def test_the_joint_log_sum_exp_and_its_gradient_are_those_of_one_process(results):
    parts = [result["joint"] for result in results]
    levels = torch.stack([part["levels"] for part in parts]).requires_grad_()
    counting = torch.stack([part["counts"] for part in parts])
    expected = levels[counting].logsumexp(0)
    # Every worker's loss reads the joint level, so what flows back is the sum of all of them.
    expected.backward(torch.stack([part["upstream"] for part in parts]).sum(0))
    for part, gradient in zip(parts, levels.grad, strict=True):
        assert_close(part["result"], expected.detach())
        assert_close(part["gradient"], gradient)
