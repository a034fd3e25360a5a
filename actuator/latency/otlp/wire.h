// ExportMetricsServiceRequest in the encodings of OTLP: protobuf and JSON. Whatever it says, memory is bounded by some
// multiple of its length.
#pragma once

#include <string_view>

#include "base/result.h"
#include "otlp/point.h"

namespace osml::latency::otlp {

// Longer resources, scopes and points are refused: as objects they take thirty times as much.
constexpr std::size_t longest_message = std::size_t{256} << 10U;
// As a document it takes twenty times as much. SDKs send protobuf unless they are asked for JSON.
constexpr std::size_t longest_json = std::size_t{1} << 20U;

// Input: it is no such request. Nothing of it is used then.
Result<Export> read_protobuf(std::string_view body, const Selection& selection);
// Names in lowerCamelCase, 64-bit integers as numbers or text, enums as numbers; unknown names are ignored.
Result<Export> read_json(std::string_view body, const Selection& selection);

}  // namespace osml::latency::otlp
