// JSON to domain types: a decision comes from the network and is checked field by field.
#include <charconv>

#include "domain/forms.h"
#include "domain/json.h"
#include "domain/json_reader.h"
#include "domain/keys.h"

namespace osml {

namespace {

using nlohmann::json;

constexpr std::size_t max_reasons = 1000;
constexpr std::uint64_t max_count = 65536;     // cores, ways, percent, MB/s steps: far above any machine
constexpr std::uint64_t max_mib = 1ULL << 40;  // one EiB
constexpr std::uint64_t max_iops = 1'000'000'000;
constexpr std::uint64_t max_mhz = 1'000'000;
constexpr std::size_t max_policy_state = 131072;  // what the server accepts back
constexpr const char* a_name = "a name (letters, digits, '_', '.', '-')";

bool is_state(std::string_view text) { return text.size() <= max_policy_state; }
bool is_decision_schema(std::string_view text) { return text == key::decision_schema; }
bool is_mba_unit(std::string_view text) { return text == "percent" || text == "mbps" || text == "eighth_gbps"; }

std::optional<unsigned> narrow(const std::optional<std::uint64_t>& value) {
  return value ? std::optional<unsigned>(static_cast<unsigned>(*value)) : std::nullopt;
}

std::uint64_t parse_hex(const std::string& digits) {
  std::uint64_t mask = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), mask, 16);
  return mask;
}

// The network: the server sends it to nodes whose platform says that it can set it, which this agent never says.
Levers read_levers(JsonReader reader, const json& object) {
  for (const auto& item : object.items()) {
    const std::string& name = item.key();
    if (name == key::frequency_mhz || name == key::memory_mib || name == key::disk_iops ||
        name == key::realtime_priority || name == key::slice_ms || item.value().is_null()) {
      continue;
    }
    reader.fail(reader.path(name.c_str()), item.value(), "no such knob: this agent cannot set it");
  }
  Levers levers;
  levers.memory_mib = reader.optional_integer(key::memory_mib, 1, max_mib);
  levers.disk_iops = reader.optional_integer(key::disk_iops, 1, max_iops);
  levers.realtime_priority = narrow(reader.optional_integer(key::realtime_priority, 1, 99));
  levers.slice_ms = reader.optional_positive(key::slice_ms);
  levers.frequency_mhz = reader.optional_integer(key::frequency_mhz, 1, max_mhz);
  return levers;
}

Levers read_levers(JsonReader& reader) {
  const json* object = reader.optional_object(key::knobs);
  return object == nullptr ? Levers{} : read_levers({*object, reader.path(key::knobs), reader.error()}, *object);
}

Assignment read_assignment(JsonReader reader) {
  reader.refuse_unknown(
      {key::service, key::cpus, key::cpu_quota, key::cpu_weight, key::way_mask, key::mba, key::knobs});
  Assignment assignment;
  assignment.levers = read_levers(reader);
  assignment.service = reader.text(key::service, is_name, a_name);
  assignment.cpus = reader.optional_text(key::cpus, is_cpu_list, "a CPU list such as 0-3,8 with at least one CPU");
  assignment.cpu_quota = reader.optional_positive(key::cpu_quota);
  assignment.cpu_weight = narrow(reader.optional_integer(key::cpu_weight, 1, 10000));
  if (const auto digits = reader.optional_text(key::way_mask, is_hex_mask, "1 to 16 hexadecimal digits without 0x")) {
    assignment.way_mask = parse_hex(*digits);
    if (*assignment.way_mask == 0) reader.fail(reader.path(key::way_mask), *digits, "at least one way");
  }
  assignment.mba = narrow(reader.optional_integer(key::mba, 1, most_mba));
  return assignment;
}

std::vector<Assignment> read_assignments(const json& list, const std::string& field, std::optional<Error>& error) {
  std::vector<Assignment> assignments;
  for (std::size_t i = 0; i < list.size() && !error; ++i) {
    assignments.push_back(read_assignment({list[i], field + "[" + std::to_string(i) + "]", error}));
    for (std::size_t k = 0; k < i && !error; ++k) {
      if (assignments[k].service != assignments[i].service) continue;
      error = Error{ErrorKind::Input,
                    field + ": service '" + assignments[i].service + "' has two assignments, expected one per service"};
    }
  }
  return assignments;
}

Region read_region(JsonReader reader) {
  reader.refuse_unknown({key::owners, key::cores, key::ways, key::domain});
  Region region;
  for (const json& owner : reader.list(key::owners, max_services)) {
    if (!owner.is_string() || !is_name(owner.get_ref<const std::string&>())) {
      reader.fail(reader.path(key::owners), owner, a_name);
      return region;
    }
    region.owners.push_back(owner.get<std::string>());
  }
  if (region.owners.empty() && !reader.failed()) {
    reader.fail(reader.path(key::owners), json::array(), "at least one service");
  }
  region.cores = static_cast<unsigned>(reader.optional_integer(key::cores, 0, max_count).value_or(0));
  region.ways = static_cast<unsigned>(reader.optional_integer(key::ways, 0, max_count).value_or(0));
  region.domain = narrow(reader.optional_integer(key::domain, 0, UINT32_MAX));
  return region;
}

Partition read_partition(JsonReader reader) {
  reader.refuse_unknown({key::regions, key::mba, key::knobs});
  Partition partition;
  const json& regions = reader.list(key::regions, 4 * max_services);
  for (std::size_t i = 0; i < regions.size() && !reader.failed(); ++i) {
    partition.regions.push_back(read_region({regions[i], reader.path(key::regions, i), reader.error()}));
  }
  if (const json* throttles = reader.optional_object(key::mba)) {
    JsonReader values(*throttles, reader.path(key::mba), reader.error());
    for (const auto& item : throttles->items()) {
      partition.mba[item.key()] = static_cast<unsigned>(values.integer(item.key().c_str(), 0, most_mba));
    }
  }
  if (const json* services = reader.optional_object(key::knobs)) {
    for (const auto& item : services->items()) {
      if (reader.failed()) break;
      const std::string path = reader.path(key::knobs) + "." + item.key();
      if (item.value().is_object()) {
        partition.levers[item.key()] = read_levers({item.value(), path, reader.error()}, item.value());
      } else {
        reader.fail(path, item.value(), "an object");
      }
    }
  }
  return partition;
}

Reason read_reason(JsonReader reader) {
  Reason reason;
  reason.text = reader.text(key::text, any_text, "a sentence");
  reason.service = reader.optional_text(key::service, any_text, "a service");
  return reason;
}

Decision read_decision(JsonReader reader) {
  Decision decision;
  reader.optional_text(key::schema, is_decision_schema, key::decision_schema);
  decision.node = reader.text(key::node, is_name, a_name);
  decision.seq = reader.integer(key::seq, 0, UINT64_MAX);
  decision.policy = reader.text(key::policy, any_text, "the name of a policy");
  decision.partition = read_partition({reader.object(key::partition), reader.path(key::partition), reader.error()});
  decision.assignments =
      read_assignments(reader.list(key::assignments, max_services), reader.path(key::assignments), reader.error());
  if (const json* reasons = reader.optional_list(key::reasons, max_reasons)) {
    for (std::size_t i = 0; i < reasons->size() && !reader.failed(); ++i) {
      decision.reasons.push_back(read_reason({(*reasons)[i], reader.path(key::reasons, i), reader.error()}));
    }
  }
  if (const json* infeasible = reader.optional_object(key::infeasible)) {
    JsonReader inner(*infeasible, reader.path(key::infeasible), reader.error());
    decision.infeasible = inner.text(key::message, any_text, "a sentence");
    if (const json* services = inner.optional_list(key::services, max_services)) {
      for (const json& service : *services) {
        if (!service.is_string()) inner.fail(inner.path(key::services), service, "names of services");
        if (service.is_string()) decision.infeasible_services.push_back(service.get<std::string>());
      }
    }
  }
  decision.policy_state = reader.optional_text(key::policy_state, is_state, "at most 131072 bytes");
  return decision;
}

void read_platform_lists(JsonReader& reader, Platform& platform) {
  if (const json* siblings = reader.optional_list(key::siblings, max_count)) {
    for (const json& group : *siblings) {
      std::vector<unsigned>& cpus = platform.siblings.emplace_back();
      for (const json& cpu : group) {
        if (!cpu.is_number_unsigned()) return reader.fail(reader.path(key::siblings), group, "lists of CPU ids");
        cpus.push_back(cpu.get<unsigned>());
      }
    }
  }
  if (const json* domains = reader.optional_list(key::domains, max_count)) {
    for (std::size_t i = 0; i < domains->size() && !reader.failed(); ++i) {
      JsonReader domain((*domains)[i], reader.path(key::domains, i), reader.error());
      CacheDomain& added = platform.domains.emplace_back();
      added.id = static_cast<unsigned>(domain.integer(key::id, 0, UINT32_MAX));
      added.cpus = domain.text(key::cpus, any_text, "a CPU list");
    }
  }
}

std::optional<KnobRange> read_range(JsonReader& reader, const char* name) {
  const json* object = reader.optional_object(name);
  if (object == nullptr) return std::nullopt;
  JsonReader range(*object, reader.path(name), reader.error());
  constexpr std::uint64_t most = INT64_MAX;
  const std::uint64_t least = range.integer(key::min, 0, most);
  const std::uint64_t all = range.integer(key::max, 1, most);
  return KnobRange{least, all, range.integer(key::step, 1, most)};
}

Platform read_platform(JsonReader reader) {
  Platform platform;
  platform.id = reader.text(key::id, any_text, "a name");
  platform.cores = static_cast<unsigned>(reader.integer(key::cores, 1, max_count));
  platform.cpus = reader.text(key::cpus, is_cpu_list, "a CPU list");
  platform.core_quantum = reader.optional_positive(key::core_quantum).value_or(1.0);
  read_platform_lists(reader, platform);
  platform.ways = narrow(reader.optional_integer(key::ways, 1, 64));
  platform.way_mib = reader.optional_positive(key::way_mib);
  platform.min_way_bits = static_cast<unsigned>(reader.optional_integer(key::min_way_bits, 1, 64).value_or(1));
  platform.sparse_masks = reader.optional_boolean(key::sparse_masks).value_or(false);
  if (const json* range = reader.optional_object(key::mba)) {
    JsonReader mba(*range, key::mba, reader.error());
    MbaRange& read = platform.mba.emplace();
    read.min = static_cast<unsigned>(mba.integer(key::min, 0, most_mba));
    read.max = static_cast<unsigned>(mba.integer(key::max, 1, most_mba));
    read.step = static_cast<unsigned>(mba.integer(key::step, 0, most_mba));
    read.unit = mba.optional_text(key::unit, is_mba_unit, "percent, mbps or eighth_gbps").value_or("percent");
  }
  platform.max_groups = narrow(reader.optional_integer(key::max_groups, 1, max_count));
  platform.bandwidth_gbps = reader.optional_positive(key::bandwidth_gbps);
  platform.memory_gib = reader.optional_positive(key::memory_gib);
  platform.frequency_ghz = reader.optional_positive(key::frequency_ghz);
  platform.frequency_mhz = read_range(reader, key::frequency_mhz);
  platform.memory_mib = read_range(reader, key::memory_mib);
  platform.disk_iops = read_range(reader, key::disk_iops);
  platform.realtime = reader.optional_boolean(key::realtime).value_or(false);
  platform.regions_in_domains = reader.optional_boolean(key::regions_in_domains).value_or(false);
  return platform;
}

template <class T>
Result<T> unless(const std::optional<Error>& error, T value) {
  if (error) return *error;
  return value;
}

}  // namespace

Result<Decision> parse_decision(std::string_view text) {
  json document;
  try {
    document = json::parse(text);
  } catch (const json::exception& broken) {
    const std::string_view what(broken.what());
    return Error{ErrorKind::Input, "the decision is not valid JSON: " + std::string(what.substr(what.find("] ") + 2))};
  }
  std::optional<Error> error;
  Decision decision = read_decision({document, "", error});
  return unless(error, std::move(decision));
}

Result<Decision> parse_decision(const json& object, const std::string& field) {
  std::optional<Error> error;
  Decision decision = read_decision({object, field, error});
  return unless(error, std::move(decision));
}

Result<std::vector<Assignment>> parse_assignments(const json& list, const std::string& field) {
  if (!list.is_array()) return Error{ErrorKind::Input, field + ": expected a list of assignments"};
  std::optional<Error> error;
  auto assignments = read_assignments(list, field, error);
  return unless(error, std::move(assignments));
}

Result<Partition> parse_partition(const json& object, const std::string& field) {
  std::optional<Error> error;
  Partition partition = read_partition({object, field, error});
  return unless(error, std::move(partition));
}

Result<Platform> parse_platform(const json& object, const std::string& field) {
  std::optional<Error> error;
  Platform platform = read_platform({object, field, error});
  return unless(error, std::move(platform));
}

}  // namespace osml
