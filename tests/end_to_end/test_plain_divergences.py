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


RIGHT = {kl_div_loss: "inside", distillation_loss: "inside", kd_loss: "outside"}
WRONG = (
    kl_div_loss_of_teacher_logits, kl_div_loss_without_logarithms, kl_div_loss_of_single_words,
    kl_div_loss_with_another_gradient,
)  # fmt: skip


def rows_are_what_they_are(function, report):
    assert f"normalisation = {RIGHT[function]}" in str(report)
    assert "distillation_loss_gradient" in {cell["mechanism"] for cell in report.cells}


test_a_right_function_conforms = conforming(RIGHT, rows_are_what_they_are)
test_a_wrong_function_does_not = refuted(WRONG)
