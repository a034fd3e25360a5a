// What resctrl can set for one service, as knobs (see base/knob.h). All work on the group osml-<service>.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/knob.h"
#include "config/config.h"
#include "resctrl/info.h"
#include "resctrl/schemata.h"

namespace osml::resctrl {

// Where a service's group is, and what the file system around it can do.
struct Site {
  Roots roots;
  fs::path group;
  Match match;
  Info info;
};

// Group: values "present" and "" (absent). Snapshots: "absent", or "present" and the lines of its schemata.
class GroupKnob : public Knob {
 public:
  explicit GroupKnob(Site site) : site_(std::move(site)) {}
  [[nodiscard]] Aspect aspect() const override { return Aspect::Group; }
  [[nodiscard]] std::string_view backend() const override { return "resctrl"; }
  Status probe() override;
  Result<std::string> read() override;
  Status write(const std::string& value) override;
  [[nodiscard]] bool same(const std::string& read, const std::string& wanted) const override { return read == wanted; }
  Result<std::string> snapshot() override;
  // A group of our name that an earlier agent left behind (its journal lost) is removed at the end, too.
  Result<std::string> origin() override;
  Status restore(const std::string& snapshot) override;

 private:
  Site site_;
};

// Common part of masks and bandwidth: one value for every domain of some resources of the group's schemata.
// A snapshot is the lines themselves, since what is found may differ from domain to domain; or "absent".
class SchemataKnob : public Knob {
 public:
  explicit SchemataKnob(Site site) : site_(std::move(site)) {}
  [[nodiscard]] std::string_view backend() const override { return "resctrl"; }
  // One value where all domains agree, else "0=ff;1=f0".
  Result<std::string> read() override;
  Status write(const std::string& value) override;
  Result<std::string> snapshot() override;
  Status restore(const std::string& snapshot) override;

 protected:
  [[nodiscard]] virtual std::vector<std::string> resources() const = 0;
  [[nodiscard]] virtual Result<std::uint64_t> parse(const std::string& value) const = 0;
  [[nodiscard]] virtual bool same_value(std::uint64_t read, std::uint64_t wanted) const = 0;
  [[nodiscard]] const Site& site() const { return site_; }

 private:
  Status command(const std::vector<SchemataLine>& lines);

  Site site_;
};

// Ways: a hexadecimal mask without 0x. Under CDP code and data get the same.
class WaysKnob : public SchemataKnob {
 public:
  using SchemataKnob::SchemataKnob;
  [[nodiscard]] Aspect aspect() const override { return Aspect::Ways; }
  Status probe() override;
  [[nodiscard]] bool same(const std::string& read, const std::string& wanted) const override;

 protected:
  [[nodiscard]] std::vector<std::string> resources() const override;
  [[nodiscard]] Result<std::uint64_t> parse(const std::string& value) const override;
  [[nodiscard]] bool same_value(std::uint64_t read, std::uint64_t wanted) const override { return read == wanted; }
};

// Memory bandwidth in the machine's unit, decimal. Compared after the kernel's rounding.
class MbaKnob : public SchemataKnob {
 public:
  using SchemataKnob::SchemataKnob;
  [[nodiscard]] Aspect aspect() const override { return Aspect::Mba; }
  Status probe() override;
  [[nodiscard]] bool same(const std::string& read, const std::string& wanted) const override;

 protected:
  [[nodiscard]] std::vector<std::string> resources() const override { return {"MB"}; }
  [[nodiscard]] Result<std::uint64_t> parse(const std::string& value) const override;
  [[nodiscard]] bool same_value(std::uint64_t read, std::uint64_t wanted) const override;
};

// Tasks: the name of the group of ours that every thread of the service is in, "" = there is none. It is the service's
// own group, or one that services share. A snapshot says which of the threads were in which group.
class TasksKnob : public Knob {
 public:
  explicit TasksKnob(Site site) : site_(std::move(site)) {}
  [[nodiscard]] Aspect aspect() const override { return Aspect::Tasks; }
  [[nodiscard]] std::string_view backend() const override { return "resctrl"; }
  Status probe() override;
  Result<std::string> read() override;
  Status write(const std::string& value) override;
  [[nodiscard]] bool same(const std::string& read, const std::string& wanted) const override;
  Result<std::string> snapshot() override;
  Result<std::string> origin() override;
  Status restore(const std::string& snapshot) override;
  Status reconcile(const std::string& value) override { return write(value); }

 private:
  [[nodiscard]] fs::path sibling(const std::string& name) const;
  static Result<bool> all_in(const fs::path& group, const std::vector<pid_t>& members);
  Result<std::string> groups_of_members(bool ours_too);
  // Every thread that is in another group than the root, and which.
  [[nodiscard]] Result<std::map<pid_t, fs::path>> present_groups() const;

  Site site_;
};

}  // namespace osml::resctrl
