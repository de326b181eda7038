// SPDX-License-Identifier: GPL-2.0
/* TCP BBR version 3 */
#define BBR_NAME	"bbr3"
#define BBR_DESCRIPTION	"TCP BBR version 3 (as the authors' v3)"

#include "bbr3.h"
