from tests.chaos.releases import make

forge = make()


@forge.job()
async def greet(name: str) -> str:
    return f"old {name}"
