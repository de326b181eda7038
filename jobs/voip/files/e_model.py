# SPDX-License-Identifier: GPL-3.0-or-later
"""The E-model of ITU-T G.107 (06/2015) with its default values.

It has rating factor R and MOS from delay and loss.

Names are those of the recommendation, clause numbers its own. What a call knows are the
mouth-to-ear delay and the loss; all else has the recommendation's default value (clause 7.7).
"""

from __future__ import annotations

from math import exp, log2, log10, pow, sqrt

SLR, RLR, STMR = 8.0, 2.0, 15.0  # loudness ratings of sending, receiving and sidetone, dB
DS, DR = 3.0, 3.0  # D-values of the telephones
TELR, WEPL = 65.0, 110.0  # talker echo and weighted echo path loss, dB
QDU = 1.0  # quantizing distortion units
NC, NFOR = -70.0, -64.0  # circuit noise in dBm0p, noise floor at the receiver in dBmp
PS, PR = 35.0, 35.0  # room noise of the sender and the receiver, dB(A)
A, BURST_R = 0.0, 1.0  # advantage; losses are independent
IE_G711, BPL_G711_PLC = 0.0, 25.1  # G.711 with packet loss concealment: ITU-T G.113 appendix I


def rating(
    delay_ms: float, loss_pct: float, ie: float = IE_G711, bpl: float = BPL_G711_PLC
) -> float:
    """Return R of clause 7.1.

    `delay_ms`: one way, mouth to ear (T = Ta, and Tr = 2 T); `loss_pct`: packets not played (Ppl).
    """
    no = _noise()
    ro = 15 - 1.5 * (SLR + no)  # clause 7.2
    return (
        ro
        - _simultaneous(ro, no, delay_ms)
        - _delay(ro, no, delay_ms)
        - effective_ie(loss_pct, ie, bpl)
        + A
    )


def mos(r: float) -> float:
    """Return the estimated conversational MOS of annex B, from 1 to 4.5.

    Just above R = 0 its polynomial falls below 1.
    """
    bounded = min(max(r, 0.0), 100.0)
    return max(1.0, 1 + 0.035 * bounded + bounded * (bounded - 60) * (100 - bounded) * 7e-6)


def effective_ie(loss_pct: float, ie: float = IE_G711, bpl: float = BPL_G711_PLC) -> float:
    """Return Ie-eff of clause 7.5."""
    return ie + (95 - ie) * loss_pct / (loss_pct / BURST_R + bpl)


def absolute_delay(delay_ms: float) -> float:
    """Return Idd of clause 7.4.

    The sensitivity sT = 1 and the minimum perceivable delay mT = 100 ms are the defaults.
    """
    if delay_ms <= 100:
        return 0.0
    x = log2(delay_ms / 100)
    return 25 * (_soft(x, 6) - 3 * _soft(x / 3, 6) + 2)


def _soft(x: float, n: int) -> float:
    """Return the form that many terms have: 1 for a small x, x for a large one."""
    return pow(1 + pow(x, n), 1 / n)


def _noise() -> float:
    """Return No of clause 7.2."""
    olr = SLR + RLR
    nos = PS - SLR - DS - 100 + 0.004 * (PS - olr - DS - 14) ** 2
    pre = PR + 10 * log10(1 + pow(10, (10 - (STMR + DR)) / 10))
    nor = RLR - 121 + pre + 0.008 * (pre - 35) ** 2
    return 10 * log10(sum(pow(10, level / 10) for level in (NC, nos, nor, NFOR + RLR)))


def _simultaneous(ro: float, no: float, delay_ms: float) -> float:
    """Return Is of clause 7.3: too loud a connection, sidetone, quantizing distortion."""
    xolr = SLR + RLR + 0.2 * (64 + no - RLR)
    iolr = 20 * (_soft(xolr / 8, 8) - xolr / 8)
    stmro = -10 * log10(pow(10, -STMR / 10) + exp(-delay_ms / 4) * pow(10, -TELR / 10))
    ist = (
        12 * _soft((stmro - 13) / 6, 8)
        - 28 * _soft((stmro + 1) / 19.4, 35)
        - 13 * _soft((stmro - 3) / 33, 13)
        + 29
    )
    q = 37 - 15 * log10(QDU)
    g = 1.07 + 0.258 * q + 0.0602 * q**2
    iq = 15 * log10(1 + pow(10, (ro - 100) / 15 + 46 / 8.4 - g / 9) + pow(10, 46 / 30 - g / 40))
    return iolr + ist + iq


def _delay(ro: float, no: float, delay_ms: float) -> float:
    """Return Id of clause 7.4: talker echo, listener echo, absolute delay."""
    terv = (
        TELR - 40 * log10((1 + delay_ms / 10) / (1 + delay_ms / 150)) + 6 * exp(-0.3 * delay_ms**2)
    )
    echo = (-1.5 * (no - RLR) - (80 + 2.5 * (terv - 14))) / 2
    idte = (echo + sqrt(echo**2 + 100) - 1) * (1 - exp(-delay_ms))
    listener = (ro - 10.5 * (WEPL + 7) * pow(2 * delay_ms + 1, -0.25)) / 2
    idle = listener + sqrt(listener**2 + 169)
    return idte + idle + absolute_delay(delay_ms)
