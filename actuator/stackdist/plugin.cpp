// A plugin of QEMU's user mode: hands what a program loads, stores and executes to the simulated caches.
// Usage: qemu-x86_64 -plugin PATH,model=FILE PROGRAM. FILE comes from `osml-stackdist create`.
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core.h"
#include "qemu_plugin.h"
#include "repeated.h"

extern "C" {
OSML_PLUGIN_EXPORT extern int qemu_plugin_version;
int qemu_plugin_version = 1;
OSML_PLUGIN_EXPORT int qemu_plugin_install(std::uint64_t id, const QemuInfo* info, int argc, char** argv);
}

namespace {

using osml::stackdist::Core;
using osml::stackdist::SharedModel;

constexpr std::size_t kMostThreads = 4096;
constexpr std::int64_t kExecve = 59;     // x86-64
constexpr std::int64_t kExecveat = 322;  // x86-64

// What is known of a translated block when it runs. Kept for the life of the process, as QEMU keeps the pointer.
struct Block {
  std::vector<std::uint64_t> lines;  // an address in each line of its code
  std::uint64_t instructions = 0;
  std::uint64_t starts_with_repeat = 0;  // address of an instruction that QEMU executes once per element, or 0
  std::uint64_t ends_with_repeat = 0;
};

struct Thread {
  Core core;
  std::uint64_t repeating = 0;  // the repeated instruction that ran last
};

std::optional<SharedModel> g_model;
std::uint64_t g_salt = 0;
std::array<std::unique_ptr<Thread>, kMostThreads> g_threads;  // by QEMU's number of the CPU; each used by one thread

Thread& thread_of(unsigned vcpu) {
  auto& slot = g_threads[vcpu % kMostThreads];
  if (!slot) slot = std::make_unique<Thread>(Thread{Core(*g_model, g_salt), 0});
  return *slot;
}

void executed(unsigned vcpu, void* data) {
  Thread& thread = thread_of(vcpu);
  const auto& block = *static_cast<const Block*>(data);
  for (const std::uint64_t line : block.lines) thread.core.code(line);
  const bool again = block.starts_with_repeat != 0 && thread.repeating == block.starts_with_repeat;
  thread.core.ran(block.instructions - (again ? 1 : 0));
  thread.repeating = block.ends_with_repeat;
}

void touched(unsigned vcpu, std::uint32_t info, std::uint64_t address, void* /*data*/) {
  thread_of(vcpu).core.data(address, std::uint64_t{1} << qemu_plugin_mem_size_shift(info),
                            qemu_plugin_mem_is_store(info));
}

void translated(std::uint64_t /*id*/, QemuTranslated* code) {
  auto block = std::make_unique<Block>();
  block->instructions = qemu_plugin_tb_n_insns(code);
  std::uint64_t last_line = 0;
  for (std::size_t i = 0; i < block->instructions; ++i) {
    QemuInstruction* instruction = qemu_plugin_tb_get_insn(code, i);
    const std::uint64_t address = qemu_plugin_insn_vaddr(instruction);
    const std::size_t size = qemu_plugin_insn_size(instruction);
    for (const std::uint64_t at : {address, address + size - 1}) {
      const std::uint64_t line = (at >> osml::stackdist::kLineShift) + 1;
      if (line != last_line) block->lines.push_back(at);
      last_line = line;
    }
    const bool repeated =
        osml::stackdist::is_repeated(static_cast<const std::uint8_t*>(qemu_plugin_insn_data(instruction)), size);
    if (repeated && i == 0) block->starts_with_repeat = address;
    if (repeated && i + 1 == block->instructions) block->ends_with_repeat = address;
    qemu_plugin_register_vcpu_mem_cb(instruction, touched, kQemuNoRegisters, kQemuReadAndWrite, nullptr);
  }
  qemu_plugin_register_vcpu_tb_exec_cb(code, executed, kQemuNoRegisters, block.release());
}

void thread_began(std::uint64_t /*id*/, unsigned /*vcpu*/) { g_model->shared().threads.fetch_add(1); }

// A program that waits has handed all on.
void calls(std::uint64_t /*id*/, unsigned vcpu, std::int64_t number, std::uint64_t /*a1*/, std::uint64_t /*a2*/,
           std::uint64_t /*a3*/, std::uint64_t /*a4*/, std::uint64_t /*a5*/, std::uint64_t /*a6*/, std::uint64_t /*a7*/,
           std::uint64_t /*a8*/) {
  thread_of(vcpu).core.flush();
  if (number == kExecve || number == kExecveat) g_model->shared().unseen_programs.fetch_add(1);
}

// exec only comes back where it failed.
void returns(std::uint64_t /*id*/, unsigned /*vcpu*/, std::int64_t number, std::int64_t /*result*/) {
  if (number == kExecve || number == kExecveat) g_model->shared().unseen_programs.fetch_sub(1);
}

void ends(std::uint64_t /*id*/, void* /*data*/) {
  for (auto& thread : g_threads) {
    if (thread) thread->core.flush();
  }
}

void in_forked_child() {
  g_model->shared().processes.fetch_add(1);
  // Above the 42 bits of a line's number in user space.
  g_salt = (static_cast<std::uint64_t>(getpid()) & 0xfffffU) << 42U;
  for (auto& thread : g_threads) {
    if (thread) thread->core.forked(g_salt);
  }
}

}  // namespace

int qemu_plugin_install(std::uint64_t id, const QemuInfo* info, int argc, char** argv) {
  if (info->system_emulation || std::strcmp(info->target_name, "x86_64") != 0) {
    (void)std::fprintf(stderr, "osml-stackdist: QEMU runs %s, expected user mode of x86_64\n", info->target_name);
    return 1;
  }
  std::string file;
  for (int i = 0; i < argc; ++i) {
    if (std::strncmp(argv[i], "model=", 6) == 0) file = argv[i] + 6;
  }
  auto model = SharedModel::open(file);
  if (!model) {
    (void)std::fprintf(stderr, "osml-stackdist: %s\n", model.error().message.c_str());
    return 1;
  }
  g_model.emplace(std::move(model).value());
  g_model->shared().processes.fetch_add(1);
  pthread_atfork(nullptr, nullptr, in_forked_child);
  qemu_plugin_register_vcpu_init_cb(id, thread_began);
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_vcpu_syscall_cb(id, calls);
  qemu_plugin_register_vcpu_syscall_ret_cb(id, returns);
  qemu_plugin_register_atexit_cb(id, ends, nullptr);
  return 0;
}
