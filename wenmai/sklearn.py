"""The estimators of scikit-learn's shape: texts go in, as lists of strings.

``TextEncoder`` makes vectors of texts by any run that has the verb ``embed``, ``FineTunedClassifier`` trains an encoder
for texts or pairs of texts, ``WenmaiClassifier`` has the classifiers without a network. They work in pipelines,
searches over settings and cross-validation.
"""

from wenmai.runs.estimators import TextEncoder, WenmaiClassifier
from wenmai.runs.finetuned_estimator import FineTunedClassifier

__all__ = ["FineTunedClassifier", "TextEncoder", "WenmaiClassifier"]
