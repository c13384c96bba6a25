"""Divergences of a student from its teacher as people write them: of logits or their logarithms, and of one beta."""

import torch
import torch.nn.functional as F

from .test_plain_functions import conforming, refuted


def kl_div_loss(student_logits, teacher_logits, temperature=1.0):
    student = F.log_softmax(student_logits / temperature, -1)
    teacher = F.softmax(teacher_logits / temperature, -1)
    return F.kl_div(student, teacher, reduction="batchmean") * temperature**2


def distillation_loss(student_logits, teacher_logits):
    student, teacher = student_logits.log_softmax(-1), teacher_logits.log_softmax(-1)
    return (student.exp() * (student - teacher)).sum(-1).sum()


def kd_loss(log_probs, teacher_log_probs):
    return (teacher_log_probs.exp() * (teacher_log_probs - log_probs)).mean()


def kl_div_loss_of_teacher_logits(student_logits, teacher_logits):
    student = F.log_softmax(student_logits, -1)
    return F.kl_div(student, teacher_logits, reduction="batchmean", log_target=True)


def kl_div_loss_without_logarithms(student_logits, teacher_logits):
    return F.kl_div(F.softmax(student_logits, -1), F.softmax(teacher_logits, -1), reduction="batchmean")


def kl_div_loss_of_single_words(student_logits, teacher_logits):
    return kl_div_loss(student_logits, teacher_logits).clone() / student_logits.shape[-1] ** 0.5


def kl_div_loss_of_probabilities(predictions, targets):
    return F.kl_div(torch.log(predictions), targets, reduction="batchmean")


def kl_div_loss_by_the_probabilities_of_the_teacher(log_probs, targets):
    return F.kl_div(log_probs, targets, reduction="batchmean")


def kl_div_loss_by_their_logarithms(predictions, targets):
    return (targets * (targets.log() - predictions)).sum(-1).mean()


def kl_divergence(p, q):
    return (p * (p / q).log()).sum(-1).mean()


def js_divergence(p, q):
    both = (p + q) / 2
    return 0.5 * (p * (p / both).log() + q * (q / both).log()).sum(-1).mean()


def jsd(_input, target, shift_labels=None, beta=0.5, ignore_index=-100):
    """The divergence of rows whose labels count, of logarithms on both sides."""
    rows = torch.ones(len(_input), dtype=torch.bool) if shift_labels is None else shift_labels != ignore_index
    student, teacher = _input[rows].double(), target[rows].double()
    if beta in (0, 1):
        one, other = (teacher, student) if beta == 0 else (student, teacher)
        return (F.kl_div(other, one, reduction="sum", log_target=True) / max(len(student), 1)).to(_input.dtype)
    share = torch.tensor(beta, dtype=torch.float64)
    both = torch.logaddexp(teacher + share.log(), student + (1 - share).log())
    apart = [F.kl_div(both, one, reduction="sum", log_target=True) for one in (teacher, student)]
    return ((beta * apart[0] + (1 - beta) * apart[1]) / max(len(student), 1)).to(_input.dtype)


def jsd_of_exchanged_shares(_input, target, shift_labels=None, beta=0.5, ignore_index=-100):
    return jsd(_input, target, shift_labels, 1 - beta, ignore_index)


def kl_div_loss_of_probabilities_exchanged(predictions, targets):
    return F.kl_div(predictions, torch.log(targets), reduction="batchmean")


def kl_divergence_with_a_share_of_squares(p, q):
    return kl_divergence(p, q) + 1e-3 * p.pow(2).sum(-1).mean()


def js_divergence_from_the_first(p, q):
    return kl_divergence(p, (p + q) / 2)


def kl_div_loss_by_the_probabilities_and_more(log_probs, targets):
    return kl_div_loss_by_the_probabilities_of_the_teacher(log_probs, targets) + 1e-3


class WithoutTheShare(torch.autograd.Function):
    @staticmethod
    def forward(ctx, student, teacher):
        ctx.save_for_backward(student, teacher)
        return kl_div_loss(student, teacher)

    @staticmethod
    def backward(ctx, d_loss):
        student, teacher = ctx.saved_tensors
        return -teacher.softmax(-1) / len(student) * d_loss, None


def kl_div_loss_with_another_gradient(student_logits, teacher_logits):
    return WithoutTheShare.apply(student_logits, teacher_logits)


RIGHT = {kl_div_loss: "inside", distillation_loss: "inside", kd_loss: "outside", jsd: "outside"}
OF_PROBABILITIES = {
    kl_div_loss_of_probabilities: "`predictions` and `targets` have probabilities",
    kl_divergence: "`p` and `q` have probabilities",
    js_divergence: "`p` and `q` have probabilities",
    kl_div_loss_by_the_probabilities_of_the_teacher: "`targets` has the probabilities of the teacher",
    kl_div_loss_by_their_logarithms: "`targets` has the probabilities of the teacher",
}
WRONG = (
    kl_div_loss_of_teacher_logits, kl_div_loss_without_logarithms, kl_div_loss_of_single_words,
    kl_div_loss_with_another_gradient, kl_div_loss_of_probabilities_exchanged, kl_divergence_with_a_share_of_squares,
    js_divergence_from_the_first, kl_div_loss_by_the_probabilities_and_more, jsd_of_exchanged_shares,
)  # fmt: skip


def rows_are_what_they_are(function, report):
    assert f"normalisation = {RIGHT[function]}" in str(report)
    assert "distillation_loss_gradient" in {cell["mechanism"] for cell in report.cells}


def probabilities_are_told(function, report):
    assert OF_PROBABILITIES[function] in str(report)


test_one_of_probabilities_conforms = conforming(OF_PROBABILITIES, probabilities_are_told)
test_a_right_function_conforms = conforming(RIGHT, rows_are_what_they_are)
test_a_wrong_function_does_not = refuted(WRONG)
