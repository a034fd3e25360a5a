// osml-stackdist: how many misses a program has with every number of ways of the last-level cache, in one pass.
#include <CLI/CLI.hpp>
#include <functional>
#include <iostream>

#include "core.h"
#include "report.h"
#include "shared_model.h"
#include "trace.h"

namespace {

using osml::stackdist::SharedModel;

int fail(const osml::Error& error) {
  std::cerr << "osml-stackdist: " << error.message << '\n';
  return osml::exit_code(error.kind);
}

int with_model(const std::string& file, const std::function<int(SharedModel&)>& work) {
  auto model = SharedModel::open(file);
  return model ? work(*model) : fail(model.error());
}

int trace(SharedModel& model) {
  std::ios::sync_with_stdio(false);
  osml::stackdist::Core core(model, 0);
  const auto counts = osml::stackdist::run_trace(std::cin, core);
  if (!counts) return fail(counts.error());
  std::cerr << counts->instructions << " instructions, " << counts->accesses << " accesses\n";
  return 0;
}

int run(int argc, char** argv) {
  CLI::App app{
      "Stack distances of a program in a last-level cache behind private caches. A plugin of QEMU or a trace of "
      "valgrind's lackey feeds FILE; see `osml look profile`."};
  app.require_subcommand(1);
  std::string file;
  osml::stackdist::Geometry geometry;
  bool modulo = false;
  auto* create = app.add_subcommand("create", "Make FILE: empty caches");
  create->add_option("--sets", geometry.sets, "Sets of the last level: bytes of one way / 64")->required();
  create->add_option("--ways", geometry.ways, "Ways of the last level, 1 to 64")->required();
  create->add_option("--sample-shift", geometry.sample_shift, "Simulate one set in 2^N");
  create->add_flag("--modulo", modulo, "Set = line modulo sets, as with huge pages (default: drawn by a hash)");
  create->add_option("--seed", geometry.seed, "Seed of the hash");
  create->add_option("--l1i-kib", geometry.l1i.kib, "Private cache of code");
  create->add_option("--l1i-ways", geometry.l1i.ways, "Its ways");
  create->add_option("--l1d-kib", geometry.l1d.kib, "Private cache of data");
  create->add_option("--l1d-ways", geometry.l1d.ways, "Its ways");
  create->add_option("--l2-kib", geometry.l2.kib, "Second private cache");
  create->add_option("--l2-ways", geometry.l2.ways, "Its ways");
  auto* start = app.add_subcommand("start", "Forget all counts and count from now on; the caches stay warm");
  auto* stop = app.add_subcommand("stop", "Count no more");
  auto* show = app.add_subcommand("report", "Print what was counted, as JSON");
  auto* feed = app.add_subcommand("trace", "Run a trace of lackey on standard input through the caches");
  for (auto* command : {create, start, stop, show, feed}) command->add_option("file", file, "The file")->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (create->parsed()) {
    geometry.hashed = !modulo;
    const auto made = SharedModel::create(file, geometry);
    return made ? 0 : fail(made.error());
  }
  return with_model(file, [&](SharedModel& model) {
    if (start->parsed()) model.start();
    if (stop->parsed()) model.stop();
    if (show->parsed()) std::cout << osml::stackdist::report(model).dump() << '\n';
    return feed->parsed() ? trace(model) : 0;
  });
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& problem) {  // out of memory; nothing of ours throws
    std::cerr << "osml-stackdist: " << problem.what() << '\n';
    return 1;
  }
}
