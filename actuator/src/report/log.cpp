#include "report/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>

namespace osml {

namespace {

// The message as the inside of a JSON string; spdlog's own pattern would print quotes and newlines raw.
class JsonMessage : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm& /*time*/, spdlog::memory_buf_t& out) override {
    const std::string_view payload(message.payload.data(), message.payload.size());
    // Bytes of others that are no UTF-8 become replacement characters.
    const std::string quoted = nlohmann::json(payload).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    out.append(quoted.data() + 1, quoted.data() + quoted.size() - 1);
  }
  [[nodiscard]] std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<JsonMessage>();
  }
};

}  // namespace

void configure_log(const LogConfig& log) {
  auto logger = std::make_shared<spdlog::logger>("", std::make_shared<spdlog::sinks::stderr_sink_st>());
  if (log.format == "json") {
    auto formatter = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::utc);
    formatter->add_flag<JsonMessage>('*').set_pattern(
        R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l","message":"%*"})");
    logger->set_formatter(std::move(formatter));
  } else {
    logger->set_pattern("%H:%M:%S.%e %-5l %v");
  }
  logger->set_level(spdlog::level::from_str(log.level == "warn" ? "warning" : log.level));
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace osml
