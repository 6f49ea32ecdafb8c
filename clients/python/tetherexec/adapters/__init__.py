"""Adapters: commands and files of an executor behind the interfaces of agent frameworks. Each module is for one framework, which it
does not install.
"""
