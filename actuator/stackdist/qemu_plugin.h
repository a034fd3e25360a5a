// The part of QEMU's interface for plugins (version 1, QEMU 4.2 to 8.2) that stackdist uses, declared from its
// documentation (docs/devel/tcg-plugins): Debian ships no header. QEMU resolves these names when it loads the plugin.
#pragma once

#include <cstddef>
#include <cstdint>

#define OSML_PLUGIN_EXPORT __attribute__((visibility("default")))

extern "C" {

struct QemuTranslated;
struct QemuInstruction;

struct QemuInfo {
  const char* target_name;  // "x86_64"
  struct {
    int min;
    int cur;
  } version;
  bool system_emulation;
  // More follows; a plugin only reads.
};

using QemuSimple = void (*)(std::uint64_t id, unsigned vcpu);
using QemuTranslate = void (*)(std::uint64_t id, QemuTranslated* block);
using QemuExecuted = void (*)(unsigned vcpu, void* data);
using QemuMemory = void (*)(unsigned vcpu, std::uint32_t info, std::uint64_t address, void* data);
using QemuAtExit = void (*)(std::uint64_t id, void* data);
using QemuCall = void (*)(std::uint64_t id, unsigned vcpu, std::int64_t number, std::uint64_t, std::uint64_t,
                          std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t);
using QemuReturn = void (*)(std::uint64_t id, unsigned vcpu, std::int64_t number, std::int64_t result);

inline constexpr int kQemuNoRegisters = 0;
inline constexpr int kQemuReadAndWrite = 3;

void qemu_plugin_register_vcpu_init_cb(std::uint64_t id, QemuSimple call);
void qemu_plugin_register_vcpu_tb_trans_cb(std::uint64_t id, QemuTranslate call);
void qemu_plugin_register_vcpu_tb_exec_cb(QemuTranslated* block, QemuExecuted call, int flags, void* data);
void qemu_plugin_register_vcpu_mem_cb(QemuInstruction* instruction, QemuMemory call, int flags, int which, void* data);
void qemu_plugin_register_vcpu_syscall_cb(std::uint64_t id, QemuCall call);
void qemu_plugin_register_vcpu_syscall_ret_cb(std::uint64_t id, QemuReturn call);
void qemu_plugin_register_atexit_cb(std::uint64_t id, QemuAtExit call, void* data);
std::size_t qemu_plugin_tb_n_insns(const QemuTranslated* block);
QemuInstruction* qemu_plugin_tb_get_insn(const QemuTranslated* block, std::size_t index);
std::uint64_t qemu_plugin_insn_vaddr(const QemuInstruction* instruction);
std::size_t qemu_plugin_insn_size(const QemuInstruction* instruction);
const void* qemu_plugin_insn_data(const QemuInstruction* instruction);
unsigned qemu_plugin_mem_size_shift(std::uint32_t info);
bool qemu_plugin_mem_is_store(std::uint32_t info);

}  // extern "C"
