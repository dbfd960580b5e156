import "./tokens.css";
import "./base.css";
import "./components.css";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { queryClient } from "./api/queries";
import { applyTheme } from "./lib/preferences";
import { router } from "./routes";
import { Entrance } from "./shell/Entrance";
import { ToastProvider } from "./ui/feedback";

applyTheme();
// After an upgrade the parts of an older page are gone: the page says so, and never reloads by itself.
window.addEventListener("vite:preloadError", (event) => {
  event.preventDefault();
  document.body.dataset.outdated = "yes";
});

createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <QueryClientProvider client={queryClient}>
      <ToastProvider>
        <Entrance>
          <RouterProvider router={router} />
        </Entrance>
      </ToastProvider>
    </QueryClientProvider>
  </StrictMode>,
);
