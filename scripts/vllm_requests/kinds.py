"""Kinds of bodies of one path."""


class Kinds(dict):
    """Name: path and function that makes a body of what the dice give. Every body has the `common` fields."""

    def __init__(self, path, **common):
        super().__init__()
        self.path, self.common = path, common

    def __call__(self, name):
        """Registers a function that makes the fields of a kind's own."""

        def register(fields):
            self[name] = (
                self.path,
                lambda writer: {**self.common, **writer.maybe({"cache_salt": "salt"}, 0.1), **fields(writer)},
            )
            return fields

        return register
