"""Shapes for the API's document: like those that are decoded, with any JSON where those keep
bytes."""

import types
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec


@cache
def shape_to_document(shape: Any) -> Any:
    """The same shape as a reader of the document should see it."""
    if shape is msgspec.Raw:
        return Any
    if isinstance(shape, type) and issubclass(shape, msgspec.Struct):
        return _struct(shape)
    origin = get_origin(shape)
    if origin in (Union, types.UnionType):
        members = [
            shape_to_document(one) for one in get_args(shape) if one is not msgspec.UnsetType
        ]
        return Any if Any in members else Union[tuple(members)]  # noqa: UP007 - made from a list
    if origin is tuple:
        return list[shape_to_document(get_args(shape)[0])]  # type: ignore[misc]
    return shape


def _struct(shape: type[msgspec.Struct]) -> Any:
    config, hints = shape.__struct_config__, get_type_hints(shape)
    fields: list[Any] = []
    if all(
        shape_to_document(hints[field.name]) is hints[field.name]
        for field in msgspec.structs.fields(shape)
    ):
        return shape  # nothing in it needs another look
    for field in msgspec.structs.fields(shape):
        kind = shape_to_document(hints[field.name])
        if field.required:
            fields.append((field.name, kind))
        elif isinstance(field.default, msgspec.Raw | msgspec.UnsetType):
            fields.append((field.name, kind, None))
        elif field.default == ():
            fields.append((field.name, kind, msgspec.field(default_factory=list)))
        elif field.default_factory is not msgspec.NODEFAULT:
            fields.append((field.name, kind, msgspec.field(default_factory=field.default_factory)))
        else:
            fields.append((field.name, kind, field.default))
    made = msgspec.defstruct(
        shape.__name__,
        fields,
        kw_only=True,
        forbid_unknown_fields=config.forbid_unknown_fields,
        tag_field=config.tag_field,
        tag=config.tag,
    )
    made.__doc__ = shape.__doc__
    return made
