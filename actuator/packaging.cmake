# What `cmake --install` and `cpack -G DEB` put where. The load generator is for trials and is not installed.
include(GNUInstallDirs)
# Packing packs what was built, and does not build the tests first.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)
set(OSML_UNIT ${CMAKE_CURRENT_SOURCE_DIR}/../deploy/osml-agent.service)
install(TARGETS osml-agent RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES agent.example.yaml agent.schema.json DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${CMAKE_CURRENT_SOURCE_DIR}/../LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)
install(FILES ${OSML_UNIT} ${CMAKE_CURRENT_SOURCE_DIR}/../deploy/osml-latency@.service
              ${CMAKE_CURRENT_SOURCE_DIR}/../deploy/osml-nri.service DESTINATION lib/systemd/system)
# The directories of configurations belong to the package, and only root looks into them: tokens lie there.
install(DIRECTORY DESTINATION /etc/osml DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE)
install(DIRECTORY DESTINATION /etc/osml/latency DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE)
find_program(OSML_GZIP gzip REQUIRED)
foreach(page osml-agent.8 osml-latency.8)
  set(packed ${CMAKE_CURRENT_BINARY_DIR}/${page}.gz)
  add_custom_command(OUTPUT ${packed} DEPENDS debian/${page}
                     COMMAND ${OSML_GZIP} -9nc ${CMAKE_CURRENT_SOURCE_DIR}/debian/${page} > ${packed} VERBATIM)
  list(APPEND OSML_PAGES ${packed})
endforeach()
add_custom_target(osml-man ALL DEPENDS ${OSML_PAGES})
install(FILES ${OSML_PAGES} DESTINATION ${CMAKE_INSTALL_MANDIR}/man8)
# What the package packs.
add_custom_target(osml-package DEPENDS osml-agent osml-latency osml-man)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME osml-agent)
set(CPACK_PACKAGE_VENDOR osml)
set(CPACK_PACKAGE_CONTACT "osml maintainers")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Keeps latency-critical services of a shared server inside their targets")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION admin)
# The unit runs /usr/bin/osml-agent.
# /etc is not below the prefix.
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
# Dependencies as the linker sees them, so that the package is right on the distribution that built it.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# A group is made and nothing is started at the installation: without a configuration the agent has nothing to do, and an upgrade shall be
# the operator's moment. Before the files go, the agent is stopped and what it found is put back.
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_SOURCE_DIR}/debian/postinst;${CMAKE_CURRENT_SOURCE_DIR}/debian/prerm;${CMAKE_CURRENT_SOURCE_DIR}/debian/postrm)
include(CPack)
