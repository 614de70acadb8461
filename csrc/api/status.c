/* ec_error to ecr_error. */
#include "api/status.h"

#include <stdio.h>

ecr_status ecr_report(ec_status status, const ec_error *from, ecr_error *to) {
  const ecr_status code = (ecr_status)status; /* the reference runtime has the same codes */
  if (!to) return code;
  to->status = code;
  snprintf(to->message, sizeof to->message, "%s",
           status == EC_OK ? "" : from->message[0] ? from->message : ec_status_sentence(status));
  return code;
}
