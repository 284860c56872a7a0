"""What a model call costs: FLOPs by formula (flops), shares of a call (meter), the formulas checked by counting (calibration)."""
