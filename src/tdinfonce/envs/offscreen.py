"""Pictures of a MuJoCo simulation without a display, drawn by EGL or else by OSMesa.

``python -m tdinfonce.envs.offscreen`` says which one works here, or what to install.
"""

import ctypes
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tdinfonce.envs._simulators import LIBRARIES, load, reason
from tdinfonce.errors import UserError

__all__ = ["PACKAGES", "Camera", "Graphics", "Pose", "open_graphics"]

BACKENDS = ("egl", "osmesa")
PACKAGES = LIBRARIES["egl"]
EGL_PLATFORM_DEVICE = 0x313F
HIDDEN = 5
"""A geometry group that is not drawn."""


class Pose(NamedTuple):
    """Where a camera stands: it looks at a point from a distance (metres) and two angles (degrees)."""

    lookat: tuple[float, float, float]
    distance: float
    azimuth: float
    elevation: float


class Graphics(NamedTuple):
    """A graphics library at work."""

    backend: str
    """`egl` or `osmesa`."""
    context: Any
    """What it draws in."""
    target: Any
    """MuJoCo's side of the same: meshes, textures and the buffer."""


def open_graphics(model: Any, size: int) -> Graphics:
    """Make a context with the first graphics library that works, and make it current.

    EGL is tried first unless the environment variable ``MUJOCO_GL`` names the other one. Raises UserError with the
    packages to install if there is none.
    """
    import mujoco

    model.vis.global_.offwidth = model.vis.global_.offheight = size  # no larger than the picture
    model.vis.quality.shadowsize = 0  # a map of shadows would take 64 MiB
    # Software rendering of a small picture is slower in several threads, and cores have other work to do.
    os.environ.setdefault("LP_NUM_THREADS", "1")
    asked = os.environ.get("MUJOCO_GL", "").lower()
    reasons = []
    for backend in sorted(BACKENDS, key=lambda name: name != asked):
        before = os.environ.get("PYOPENGL_PLATFORM")
        try:
            if backend == "egl" and sys.platform == "linux":
                _ask_egl()
            context = importlib.import_module(f"mujoco.{backend}").GLContext(size, size)
            context.make_current()
            return Graphics(backend, context, mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_50))
        except Exception as error:  # each library fails in its own way
            reasons.append(f"{backend}: {reason(error)}")
            _forget(backend, before)
    raise UserError(f"cannot draw images: install the Debian packages {PACKAGES}, or libosmesa6 ({'; '.join(reasons)})")


def _ask_egl() -> None:
    """Raise OSError unless EGL finds a device.

    MuJoCo's own attempt would load another library for good, and OSMesa could not be used after it.
    """
    egl = ctypes.CDLL("libEGL.so.1")
    egl.eglGetProcAddress.restype = ctypes.c_void_p
    addresses = [egl.eglGetProcAddress(name) for name in (b"eglQueryDevicesEXT", b"eglGetPlatformDisplayEXT")]
    if all(addresses):
        pointer = ctypes.c_void_p
        query = ctypes.CFUNCTYPE(ctypes.c_uint, ctypes.c_int, pointer, pointer)(addresses[0])
        display_of = ctypes.CFUNCTYPE(pointer, ctypes.c_uint, pointer, pointer)(addresses[1])
        devices, count = (pointer * 16)(), ctypes.c_int()
        query(len(devices), devices, ctypes.byref(count))
        for device in devices[: count.value]:
            display = display_of(EGL_PLATFORM_DEVICE, device, None)
            if display and egl.eglInitialize(pointer(display), None, None):
                return
    raise OSError("no device")


def _forget(backend: str, platform: str | None) -> None:
    """Unload what a failed library left behind: PyOpenGL settles on one at its first import."""
    for name in [n for n in sys.modules if n.split(".")[0] == "OpenGL" or n.startswith(f"mujoco.{backend}")]:
        del sys.modules[name]
    os.environ.pop("PYOPENGL_PLATFORM", None)
    if platform is not None:
        os.environ["PYOPENGL_PLATFORM"] = platform


class Camera:
    """A camera that stands still; one graphics context for its whole life."""

    def __init__(self, model: Any, data: Any, pose: Pose, size: int = 64) -> None:
        """Set the camera up in front of a simulation."""
        import mujoco

        self._mujoco, self._model, self._data = mujoco, model, data
        self.backend, self._context, self._target = open_graphics(model, size)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._target)
        self._scene = mujoco.MjvScene(model, maxgeom=model.ngeom + model.nsite + 10)
        for flag in (mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION):
            self._scene.flags[flag] = False
        self._option = mujoco.MjvOption()
        self._option.geomgroup[HIDDEN] = False
        self._camera = mujoco.MjvCamera()
        self._camera.lookat[:] = pose.lookat
        self._camera.distance, self._camera.azimuth, self._camera.elevation = pose[1:]
        self._rectangle = mujoco.MjrRect(0, 0, size, size)
        self._upside_down = np.empty((size, size, 3), np.uint8)
        self._groups = model.geom_group.copy()
        self._update()
        self._eye, self._walls = _frustum(self._scene.camera)

    def image(self) -> np.ndarray:
        """The state of the simulation as a picture, ``[size, size, 3]`` in uint8."""
        self._context.make_current()
        self._model.geom_group[:] = np.where(self._in_view(), self._groups, HIDDEN)
        self._update()
        self._model.geom_group[:] = self._groups
        self._mujoco.mjr_render(self._rectangle, self._scene, self._target)
        self._mujoco.mjr_readPixels(self._upside_down, None, self._rectangle, self._target)
        return self._upside_down[::-1].copy()

    def close(self) -> None:
        """Free the context."""
        if self._context is not None:
            self._context.make_current()
            self._target.free()
            self._context.free()
            self._context = None

    def _update(self) -> None:
        every = self._mujoco.mjtCatBit.mjCAT_ALL.value
        self._mujoco.mjv_updateScene(self._model, self._data, self._option, None, self._camera, every, self._scene)

    def _in_view(self) -> np.ndarray:
        """Which geometries reach into the picture, judged by the spheres around them. Planes have none."""
        radius = self._model.geom_rbound
        inside = (self._data.geom_xpos - self._eye) @ self._walls.T > -radius[:, None]
        return inside.all(axis=1) | (radius == 0)


def _frustum(cameras: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    """The eye, and the inward normals of the four sides of what it sees and of the plane through it.

    MuJoCo draws with the mean of two cameras, one for each eye.
    """
    eye = np.mean([camera.pos for camera in cameras], axis=0)
    forward, up = np.array(cameras[0].forward, float), np.array(cameras[0].up, float)
    right = np.cross(forward, up)
    slope = cameras[0].frustum_top / cameras[0].frustum_near  # width is height: the picture is square
    walls = np.array([slope * forward + side for side in (up, -up, right, -right)] + [forward])
    return eye, walls / np.linalg.norm(walls, axis=1, keepdims=True)


def main() -> int:
    """Print which graphics library works."""
    try:
        mujoco = load("mujoco")
        print(f"images are drawn by {open_graphics(mujoco.MjModel.from_xml_string('<mujoco/>'), 64).backend}")
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
