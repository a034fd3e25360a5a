#include "base/result.h"

#include <cerrno>

namespace osml {

ErrorKind kind_of_errno(int code) {
  switch (code) {
    case EACCES:
    case EPERM:
      return ErrorKind::Permission;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return ErrorKind::Capacity;
    case ENOENT:
    case ESRCH:
    case ENODEV:
      return ErrorKind::Gone;
    case EBUSY:
    case EAGAIN:
      return ErrorKind::Busy;
    case EOPNOTSUPP:
    case ENOSYS:
      return ErrorKind::Unsupported;
    default:
      return ErrorKind::Io;
  }
}

Error errno_error(int code, const std::string& what) {
  return {kind_of_errno(code), what + ": " + std::strerror(code), code};
}

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::Input:
      return 2;
    case ErrorKind::Unsupported:
    case ErrorKind::Permission:
      return 3;
    case ErrorKind::Absent:
      return 4;
    default:
      return 1;
  }
}

}  // namespace osml
