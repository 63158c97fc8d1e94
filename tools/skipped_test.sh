#!/bin/sh
# tools/skipped_test.sh REASON - reports one skipped test case (see zinf_skipped_test in zinf_test.bzl).
set -eu
echo "skipped: $1"
if [ -n "${XML_OUTPUT_FILE:-}" ]; then
    cat >"$XML_OUTPUT_FILE" <<XML
<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="1" failures="0" errors="0" name="AllTests">
  <testsuite name="skipped" tests="1" failures="0" skipped="1" errors="0">
    <testcase name="target" status="run" result="skipped" classname="skipped">
      <skipped message="$1"/>
    </testcase>
  </testsuite>
</testsuites>
XML
fi
