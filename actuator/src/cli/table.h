// Plain text tables for people.
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace osml::cli {

// Columns as wide as their longest cell, two blanks between; the first row is the heading.
void print_table(std::ostream& out, const std::vector<std::vector<std::string>>& rows);

}  // namespace osml::cli
