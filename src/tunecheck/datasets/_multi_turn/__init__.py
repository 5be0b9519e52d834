"""Checks of multi-turn data: does its ground truth do what the rows say?"""
