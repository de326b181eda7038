// SPDX-License-Identifier: GPL-2.0
/* TCP BBR version 3 with Careful Resume */
#define BBR_NAME	"bbr3_resume"
#define BBR_DESCRIPTION	"TCP BBR version 3 with Careful Resume (RFC 9959)"
#define BBR_RESUMES

#include "bbr3.h"
#include "bbr_resume.h"
