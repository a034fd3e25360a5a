// Forms of text that the wire format and the configuration share.
#pragma once

#include <string_view>

namespace osml {

// Letters, digits, '_', '.', '-', at most 63, the first one a letter or digit: names of nodes and services.
bool is_name(std::string_view text);
// Lower-case letters, digits, '-' and '.', as names in DNS and in Kubernetes are; at most 253.
bool is_name_in_dns(std::string_view text);
// Of Kubernetes: as above without '.', at most 63.
bool is_namespace(std::string_view text);
// Labels of Kubernetes. A key may have a prefix: app.kubernetes.io/name. A value may be empty.
bool is_label_key(std::string_view text);
bool is_label_value(std::string_view text);
// Of Prometheus: letters, digits and '_', the first one no digit.
bool is_metric_label(std::string_view text);
// A kernel CPU list that names at least one CPU: "0-3,8". Ascending ranges, ids below 8192.
bool is_cpu_list(std::string_view text);
// 1 to 16 lower-case hexadecimal digits, without 0x.
bool is_hex_mask(std::string_view text);
// Of a pod: 1 to 64 lower-case hexadecimal digits and '-'. Both become a part of a path.
bool is_pod_uid(std::string_view text);
// 64 lower-case hexadecimal digits.
bool is_container_id(std::string_view text);

}  // namespace osml
