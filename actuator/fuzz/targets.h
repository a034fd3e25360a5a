// What the agent and osml-latency read from outside, each as one function that must not crash, hang or break its own
// promises, whatever the bytes are. libFuzzer calls them by driver.cpp, the regression test
// (tests/fuzz_corpus_test.cpp) with the corpus.
#pragma once

#include <string_view>

namespace osml::fuzz {

void decision(std::string_view bytes);             // the server's answer; file of `apply`
void telemetry(std::string_view bytes);            // telemetry lines and datagrams
void schemata(std::string_view bytes);             // resctrl's schemata
void pods(std::string_view bytes);                 // the kubelet's list of pods; the API server's of LatencyTargets
void prometheus(std::string_view bytes);           // a service's metrics as text
void prometheus_protobuf(std::string_view bytes);  // the same as protobuf
void otlp(std::string_view bytes);  // requests to osml-latency: a letter says in which encoding the rest is

// A promise that was broken ends the process, so that every driver sees it.
void promise(bool kept, const char* what);

}  // namespace osml::fuzz
