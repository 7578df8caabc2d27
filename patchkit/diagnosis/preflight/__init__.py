"""Will this model run on this deployment? Pure: a model's numbers and a deployment → facts, problems, notes."""

from patchkit.diagnosis.preflight.finding import Finding
from patchkit.diagnosis.preflight.report import Preflight, examine_deployment

__all__ = ["Finding", "Preflight", "examine_deployment"]
