"""Tests of check_all."""
