// Sets the theme before anything is painted: the one chosen here before, else the system's.
(() => {
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const stored = () => { try { return localStorage.getItem('gputrain.theme'); } catch { return null; } };
  const apply = () => {
    document.documentElement.dataset.theme = stored() || (dark.matches ? 'dark' : 'light');
    dispatchEvent(new Event('theme'));
  };
  dark.addEventListener('change', apply);
  window.toggleTheme = () => {
    const next = document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark';
    try { localStorage.setItem('gputrain.theme', next); } catch { /* not kept */ }
    apply();
  };
  apply();
})();
