/** Few keys, one scheme; none fires while somebody types. */
import { lazy, Suspense, useEffect, useState } from "react";
import { usePreferences } from "../lib/preferences";
import { Dialog } from "../ui/Dialog";
import { PAGES } from "./places";
import { useGo } from "./scope";

const Palette = lazy(() => import("./Palette"));

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));

export function Keys() {
  const go = useGo();
  const { keys } = usePreferences();
  const [helping, setHelping] = useState(false);
  const [choosing, setChoosing] = useState(false);
  useEffect(() => {
    let led = 0;
    const press = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        if (document.querySelector("dialog[open]") === null) setChoosing(true);
        return;
      }
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || !keys) return;
      if (document.querySelector("dialog[open]") !== null) return;
      if (event.key === "/") {
        event.preventDefault();
        document.getElementById("search")?.focus();
      } else if (event.key === "?") setHelping(true);
      else if (event.key === "g") led = Date.now();
      else if (Date.now() - led < 1_500) {
        led = 0;
        const place = PAGES.find((one) => one.key === event.key);
        if (place !== undefined) {
          event.preventDefault();
          go(place.page);
        }
      }
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  });
  if (choosing) return <Suspense fallback={null}><Palette onClose={() => setChoosing(false)} /></Suspense>;
  if (!helping) return null;
  return (
    <Dialog title="Keys" onClose={() => setHelping(false)}>
      <dl className="keys">
        <div><dt><kbd>/</kbd></dt><dd>Search, or paste an id</dd></div>
        <div><dt><kbd>Ctrl</kbd> <kbd>K</kbd></dt><dd>Go anywhere, or do something, by its name</dd></div>
        <div><dt><kbd>?</kbd></dt><dd>This help</dd></div>
        {PAGES.map((one) => (
          <div key={one.key}><dt><kbd>g</kbd> <kbd>{one.key}</kbd></dt><dd>{one.name}</dd></div>
        ))}
        <div><dt><kbd>j</kbd> <kbd>k</kbd></dt><dd>Next and previous row of a list</dd></div>
        <div><dt><kbd>Enter</kbd></dt><dd>Open the row</dd></div>
        <div><dt><kbd>x</kbd></dt><dd>Select the row</dd></div>
        <div><dt><kbd>Esc</kbd></dt><dd>Close, or select nothing</dd></div>
      </dl>
    </Dialog>
  );
}
