"""Tests of the directories of MPP."""
