// The formats of a metrics endpoint: those that the agent asks for, and the one that an answer has.
#pragma once

#include "base/result.h"
#include "client/http.h"
#include "config/config.h"
#include "telemetry/histogram_series.h"

namespace osml {

// As Prometheus asks where it wants native histograms, which only protobuf has. Who knows text only answers with that.
constexpr const char* accepted_expositions =
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.7,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.1";

// The histogram of the source in an answer: protobuf where its content type says so, text otherwise.
Result<HistogramReading> read_exposition(const HttpAnswer& answer, const PrometheusSource& source);

}  // namespace osml
