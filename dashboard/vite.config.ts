import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// The server fills the path prefix into index.html; everything below it is relative to the script.
export default defineConfig({
  base: "./",
  plugins: [react()],
  publicDir: false,
  build: {
    outDir: "../src/taskforge/api/dashboard/built",
    assetsDir: "dashboard",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    sourcemap: false,
    target: "es2022",
    modulePreload: { polyfill: false },
  },
  worker: { format: "es" },
  server: { proxy: { "/api": "http://127.0.0.1:8080", "/assets": "http://127.0.0.1:8080" } },
  test: { include: ["src/**/*.test.ts"], environment: "node" },
});
