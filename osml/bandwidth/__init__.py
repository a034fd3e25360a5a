"""Memory bandwidth for a latency-critical service: profiles under the worst contention, and predictions from them.

After OMBM (Sung et al., "OMBM: optimized memory bandwidth management for ensuring QoS and high server utilization",
Cluster Computing 2018). Mathematics only: who measures, and who enforces, is not said here.
"""

from osml.bandwidth.adaptive import adaptive_lines
from osml.bandwidth.correction import Correction, Outlook, corrected
from osml.bandwidth.library import ProfileLibrary, shipped_profiles
from osml.bandwidth.offline import classic_lines, exit_threshold_qps
from osml.bandwidth.online import Prediction, Predictor
from osml.bandwidth.profile import Line, Point, Profile, load_profile, parse_profile, save_profile

__all__ = [
    "Correction",
    "Line",
    "Outlook",
    "Point",
    "Prediction",
    "Predictor",
    "Profile",
    "ProfileLibrary",
    "adaptive_lines",
    "classic_lines",
    "corrected",
    "exit_threshold_qps",
    "load_profile",
    "parse_profile",
    "save_profile",
    "shipped_profiles",
]
