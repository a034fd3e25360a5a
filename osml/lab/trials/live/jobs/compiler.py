"""A compiler: g++ translates a file of templates over and over."""

from __future__ import annotations

from pathlib import Path

from osml.lab.trials.live.jobs.job import Job
from osml.lab.trials.live.jobs.repeat import command

SOURCE = """\
#include <algorithm>
#include <map>
#include <regex>
#include <string>
#include <vector>
std::map<std::string, std::vector<std::string>> words(const std::string& text) {
  std::map<std::string, std::vector<std::string>> found;
  const std::regex word("[a-z]+");
  for (auto at = std::sregex_iterator(text.begin(), text.end(), word); at != std::sregex_iterator(); ++at) {
    auto& list = found[at->str().substr(0, 1)];
    list.push_back(at->str());
    std::sort(list.begin(), list.end());
  }
  return found;
}
"""


def _command(directory: Path, threads: int) -> list[str]:
    source = directory / "words.cpp"
    source.write_text(SOURCE)
    source.chmod(0o644)
    return command(threads, ["g++", "-std=c++20", "-O2", "-c", str(source), "-o", "/dev/null"])


JOB = Job("compiler", "g++", "g++", _command, user=None)
