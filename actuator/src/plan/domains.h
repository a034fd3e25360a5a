// Regions that name cache domains: ids that the machine has, one for each service, CPUs inside, counts within. Pure.
#pragma once

#include <optional>
#include <string>

#include "domain/types.h"

namespace osml {

bool names_domains(const Partition& partition);

// One sentence that says what is wrong; nothing where all is well or no region names a domain. The same rules as
// partition_error of osml/domain, and besides that each service's CPUs are in its domain.
std::optional<std::string> domains_refusal(const Decision& decision, const Platform& platform);

}  // namespace osml
