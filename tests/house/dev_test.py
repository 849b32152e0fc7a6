#!/usr/bin/env python3
"""./dev explains itself, and without rights names the exact packages that are missing.

A copy of the script runs in an empty directory, with a dpkg-query in front of the real one that
knows what we say it knows, and as a user who may not become root.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
COMMANDS = ("run", "test", "build", "bench", "soak", "format", "lint")
NOBODY = 65534


class DevTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        os.chmod(self.directory.name, 0o755)
        shutil.copy(os.path.join(ROOT, "dev"), self.directory.name)

    def stub(self, name, body):
        path = os.path.join(self.directory.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n" + body)
        os.chmod(path, 0o755)

    def dev(self, *arguments):
        environment = {**os.environ, "PATH": self.directory.name + ":" + os.environ["PATH"]}
        rights = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        return subprocess.run(
            [os.path.join(self.directory.name, "dev"), *arguments], env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, timeout=60, **rights)

    def test_no_command_is_answered_with_usage(self):
        answer = self.dev()
        self.assertEqual(answer.returncode, 2)
        for command in COMMANDS:
            self.assertIn(f"\n  {command} ", answer.stdout)

    def test_unknown_command_is_named(self):
        answer = self.dev("tset")
        self.assertEqual(answer.returncode, 2)
        self.assertIn("no command 'tset'", answer.stderr)

    def test_every_command_explains_itself(self):
        for command in COMMANDS:
            answer = self.dev(command, "--help")
            self.assertEqual(answer.returncode, 0, command)
            self.assertTrue(answer.stdout.startswith(f"usage: ./dev {command}"), answer.stdout)

    def test_missing_packages_without_rights_are_named_exactly(self):
        self.stub("sudo", "exit 1\n")
        self.stub("dpkg-query",
                  'for package; do :; done\n'
                  'case $package in ninja-build|libfmt-dev) exit 1 ;; esac\n'
                  'printf installed\n')
        answer = self.dev("build")
        self.assertEqual(answer.returncode, 2, answer.stderr)
        self.assertEqual(
            answer.stderr.splitlines()[-1].strip(),
            "sudo apt-get update && sudo apt-get install -y --no-install-recommends "
            "ninja-build libfmt-dev")

    def test_failing_phase_shows_its_log(self):
        self.stub("dpkg-query", "printf installed\n")
        self.stub("cmake", "echo the reason\nexit 1\n")
        os.chmod(self.directory.name, 0o777)
        answer = self.dev("build")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("the reason", answer.stdout)
        self.assertIn("build/log/configure_dev.log", answer.stderr)


if __name__ == "__main__":
    sys.exit(unittest.main())
